"""The entry point of the `edgegpt` command and of `python -m edgegpt`."""

import signal
import sys
from types import FrameType


def run() -> None:
    """Run the command line and exit with its code; Ctrl-C ends in one line and exit code 130."""
    interrupts: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        signal.default_int_handler(number, frame)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as under nohup
        signal.signal(signal.SIGINT, interrupt)
    try:
        from edgegpt.cli.main import main

        code = main()
    except BaseException:  # an import in C that is interrupted raises errors of its own
        if not interrupts:
            raise
        print("edgegpt: interrupted", file=sys.stderr)
        code = 130
    if code == 130:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C would change the exit code
    sys.exit(code)


if __name__ == "__main__":
    run()
