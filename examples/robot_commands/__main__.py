"""python -m edgegpt.training.robot_commands --split train --count 200000 --seed 1 --out train.jsonl"""

import argparse
import json
import sys
from pathlib import Path

from edgegpt.atomic import atomic_write

from . import SPLITS, generate


def write(out: Path, split: str, count: int, seed: int) -> None:
    """JSON lines with prompt and completion; the file appears whole or not at all."""
    examples = generate(split, count, seed)
    with atomic_write(out) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        for example in examples:
            file.write(json.dumps(example._asdict(), ensure_ascii=False) + "\n")


def main(argv: list[str] | None = None) -> int:
    """Run the command line; the result is the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m edgegpt.training.robot_commands",
        description="Write instruction/command pairs as JSON lines.",
    )
    parser.add_argument("--split", default="train", help=f"one of {', '.join(SPLITS)}")
    parser.add_argument("--count", type=int, required=True, help="number of examples")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    wanted = parser.parse_args(argv)
    try:
        write(wanted.out, wanted.split, wanted.count, wanted.seed)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"cannot write {wanted.out}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
