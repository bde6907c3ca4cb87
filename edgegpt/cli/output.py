"""What the commands share for printing: tables for people, JSON for machines."""

import json
import os
import sys
from collections.abc import Sequence
from math import isfinite
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table


class _Stdout(Console):
    """Once its reader has gone it prints no more, but the command goes on to its verdict and exit code."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# Without markup: a path may hold square brackets.
stdout = _Stdout(highlight=False, markup=False)
stderr = Console(stderr=True, highlight=False, markup=False)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
ThreadsOption = Annotated[int, typer.Option(help="CPU threads of onnxruntime.")]
FileArgument = Annotated[str, typer.Argument(metavar="FILE.onnx", help="A file made by `edgegpt export`.")]


def print_json(data: Any) -> None:
    """Print one JSON document; JSON has no NaN and no infinity, they become null."""
    text = json.dumps(_finite(data), indent=2, ensure_ascii=False, allow_nan=False)
    try:
        print(text, flush=True)
    except BrokenPipeError:
        stdout.on_broken_pipe()


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not isfinite(data) else data


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    total: bool = False,
    numbers: bool = True,
) -> Table:
    """A table whose first column is text and whose others are numbers; `total` sets off the last row."""
    result = Table(title=title, title_justify="left", show_header=any(columns))
    for i, column in enumerate(columns):
        result.add_column(column, justify="right" if numbers and i else "left", overflow="fold")
    for i, row in enumerate(rows):
        result.add_row(*row, end_section=total and i == len(rows) - 2)
    return result


def megabytes(n: float) -> str:
    """Bytes as people read them: kB or MB, powers of ten."""
    return f"{n / 1e6:.2f} MB" if n >= 1e6 else f"{n / 1e3:.1f} kB"
