"""edgegpt beside what a user would pick instead, on the same weights, in one run.

    make peers
    .venv-peers/bin/python benchmarks/peers.py --sizes nano micro --threads 1 --plot benchmarks/plots

Each engine has a process of its own, shows that it computes what edgegpt fp32 computes, and is then
timed in short bursts that alternate with all others'. Prints Markdown for RESULTS.md; what happens
meanwhile goes to stderr. An engine that is not installed, does not run or computes something else is
listed with the reason.
"""

import argparse
import json
import sys
from importlib.util import find_spec
from pathlib import Path

from peer.measure import Result, measure
from peer.process import PeerError
from peer.report import NOTES, circumstances, data, table
from peer.roster import REFERENCE, ROSTER
from peer.weights import CONFIGS

SIZES = ["nano", "micro", "small"]


def main() -> int:
    arguments = _arguments()
    rows = [row for row in ROSTER if row.name == REFERENCE or arguments.only in row.name]
    results: dict[str, list[Result]] = {}
    try:
        for size in arguments.sizes:
            results[size] = measure(size, rows, arguments.rounds, arguments.threads)
            print("\n".join(table(size, results[size])), flush=True)
    except PeerError as e:
        print(e, file=sys.stderr)
        return 1
    line = circumstances(arguments.threads, arguments.rounds, results[arguments.sizes[0]])
    print(f"{line}\n\n{NOTES}")
    if arguments.json:
        rows_of_all = [row for size in results for row in data(size, arguments.threads, results[size])]
        arguments.json.write_text(json.dumps({"machine": line, "results": rows_of_all}, indent=1))
    if arguments.plot:
        from peer.plot import draw

        for path in draw(arguments.plot, results, line):
            print(f"{path} is drawn", file=sys.stderr)
    return 0


def _arguments() -> argparse.Namespace:
    known = sorted(path.stem for path in CONFIGS.glob("*.yaml"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=SIZES, choices=known, help="of configs/models")
    parser.add_argument("--rounds", type=_positive, default=20, help="of four bursts per engine")
    parser.add_argument("--threads", type=_positive, default=1, help="of every engine")
    parser.add_argument("--only", type=_known, default="", metavar="TEXT", help="engines so named, in part")
    parser.add_argument("--json", type=_new_file, metavar="FILE", help="write every single time there")
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="draw pictures there")
    arguments = parser.parse_args()
    if arguments.plot and not find_spec("matplotlib"):
        parser.error("--plot needs matplotlib, which `make peers` installs")
    return arguments


def _known(text: str) -> str:
    if not any(text in row.name for row in ROSTER):
        names = ", ".join(row.name for row in ROSTER)
        raise argparse.ArgumentTypeError(f"no engine has {text!r} in its name; there are: {names}")
    return text


def _new_file(text: str) -> Path:
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():  # said now, not after ten minutes of measuring
        raise argparse.ArgumentTypeError(f"{text} cannot be written: it is a folder or has none")
    return path


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number


if __name__ == "__main__":
    sys.exit(main())
