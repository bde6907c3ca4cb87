"""`edgegpt eval FILE.onnx DATA.jsonl`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from edgegpt.cli.output import FileArgument, JsonOption, ThreadsOption, print_json, stderr, stdout, table

_SHOWN = 5  # misses


def eval_(
    file: FileArgument,
    data: Annotated[Path, typer.Argument(metavar="DATA.jsonl", help='Lines of {"prompt", "completion"}.')],
    threads: ThreadsOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Measure exact match and loss per token of a file on examples."""
    from rich.progress import track

    from edgegpt.examples import read_jsonl
    from edgegpt.runtime import evaluate, load

    pairs = read_jsonl(data)
    generator = load(file, threads=threads)
    result = evaluate(generator, track(pairs, description="evaluating", console=stderr, disable=as_json))
    if as_json:
        print_json(asdict(result))
        return
    summary = [
        ["examples", f"{result.examples:,}"],
        ["exact match", f"{result.exact_match:.2%}"],
        ["loss per token", f"{result.loss:.4f} nats"],
    ]
    stdout.print(table(str(data), ["", "measured"], summary))
    for miss in result.misses[:_SHOWN]:
        stdout.print(f"\n{miss.prompt}\n  expected {miss.expected}\n  answered {miss.answer}", markup=False)
    if len(result.misses) > _SHOWN:
        stdout.print(f"\nand {len(result.misses) - _SHOWN} more; --json prints them all")
