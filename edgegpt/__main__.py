"""The entry point of the `edgegpt` command, and of `python -m edgegpt`."""

import sys


def run() -> None:
    """Run the command line and exit; Ctrl-C while the code is still loading ends in one line too."""
    try:
        from edgegpt.cli.main import main

        code = main()
    except KeyboardInterrupt:
        print("edgegpt: interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    run()
