"""The entry point of the `edgegpt` command, and of `python -m edgegpt`."""

import signal
import sys
from types import FrameType

_interrupted = False


def run() -> None:
    """Run the command line and exit; Ctrl-C while the code is still loading ends in one line too."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as under nohup
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from edgegpt.cli.main import main

        code = main()
    except BaseException as error:
        # What is interrupted in the middle of an import in C raises errors of its own.
        if not (isinstance(error, KeyboardInterrupt) or (_interrupted and isinstance(error, Exception))):
            raise
        print("edgegpt: interrupted", file=sys.stderr)
        code = 130
    if code == 130:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would end the end, and with another code
    sys.exit(code)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _interrupted
    _interrupted = True
    signal.default_int_handler(number, frame)


if __name__ == "__main__":
    run()
