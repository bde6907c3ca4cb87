"""python -m robot_commands --split train --count 200000 --seed 1 --out train.jsonl"""

import argparse
import json
import sys
from pathlib import Path

from . import SPLITS, generate


def write(out: Path, split: str, count: int, seed: int) -> None:
    """Write JSON lines of prompt and completion; the file appears when it is complete."""
    unfinished = out.with_name(f".{out.name}.tmp")
    examples = generate(split, count, seed)
    try:
        with unfinished.open("w", encoding="utf-8", newline="\n") as file:
            for example in examples:
                file.write(json.dumps(example._asdict(), ensure_ascii=False) + "\n")
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m robot_commands", description="Write instruction/command pairs as JSON lines."
    )
    parser.add_argument("--split", default="train", help=f"one of {', '.join(SPLITS)}")
    parser.add_argument("--count", type=int, required=True, help="number of examples")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    arguments = parser.parse_args(argv)
    try:
        write(arguments.out, arguments.split, arguments.count, arguments.seed)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"cannot write {arguments.out}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
