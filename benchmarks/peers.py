"""Compare edgegpt with the engines that a user would pick instead, on the same weights, in one run.

    make peers
    .venv-peers/bin/python benchmarks/peers.py --sizes nano micro --threads 1 --plot benchmarks/plots

Each engine runs in a process of its own. First its logits are compared with those of edgegpt fp32; then it
is timed in short bursts that alternate with those of the others. Prints Markdown for RESULTS.md, and
progress on stderr. An engine that is not installed, does not run or computes something else is listed with
the reason.
"""

import argparse
import json
import sys
from importlib.util import find_spec
from pathlib import Path

from peer.measure import Result, measure
from peer.process import PeerError
from peer.report import NOTES, circumstances, data, draw, table
from peer.roster import REFERENCE, ROSTER
from peer.weights import CONFIGS

SIZES = ["nano", "micro", "small"]


def main() -> int:
    arguments = _arguments()
    specs = [spec for spec in ROSTER if spec.name == REFERENCE or arguments.only in spec.name]
    results: dict[str, list[Result]] = {}
    try:
        for size in arguments.sizes:
            results[size] = measure(size, specs, arguments.rounds, arguments.threads)
            print("\n".join(table(size, results[size])), flush=True)
    except PeerError as e:
        print(e, file=sys.stderr)
        return 1
    line = circumstances(arguments.threads, arguments.rounds, results[arguments.sizes[0]])
    print(f"{line}\n\n{NOTES}")
    if arguments.json:
        rows = [row for size in results for row in data(size, arguments.threads, results[size])]
        arguments.json.write_text(json.dumps({"machine": line, "results": rows}, indent=1))
    if arguments.plot:
        for path in draw(arguments.plot, results, line):
            print(f"{path} is drawn", file=sys.stderr)
    return 0


def _arguments() -> argparse.Namespace:
    known = sorted(path.stem for path in CONFIGS.glob("*.yaml"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=SIZES, choices=known, help="models in configs/models")
    parser.add_argument("--rounds", type=_positive, default=20, help="rounds of four bursts per engine")
    parser.add_argument("--threads", type=_positive, default=1, help="threads of every engine")
    parser.add_argument(
        "--only", type=_known, default="", metavar="TEXT", help="engines with TEXT in their name"
    )
    parser.add_argument("--json", type=_new_file, metavar="FILE", help="write the time of every step to FILE")
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="draw pictures in FOLDER")
    arguments = parser.parse_args()
    if arguments.plot and not find_spec("matplotlib"):
        parser.error("--plot needs matplotlib, which `make peers` installs")
    return arguments


def _known(text: str) -> str:
    if not any(text in spec.name for spec in ROSTER):
        names = ", ".join(spec.name for spec in ROSTER)
        raise argparse.ArgumentTypeError(f"no engine has {text!r} in its name; choose from: {names}")
    return text


def _new_file(text: str) -> Path:
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():  # report it now, not after ten minutes of measuring
        raise argparse.ArgumentTypeError(f"{text} is a folder, or is in a folder that does not exist")
    return path


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number


if __name__ == "__main__":
    sys.exit(main())
