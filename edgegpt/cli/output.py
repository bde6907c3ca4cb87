"""Printing for all commands: tables, and JSON."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table


class _Stdout(Console):
    """Standard output that is silent once its reader has gone; the command still ends with its exit code."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# Without markup: a path may hold square brackets.
stdout = _Stdout(highlight=False, markup=False)
stderr = Console(stderr=True, highlight=False, markup=False)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ThreadsOption = Annotated[int, typer.Option(help="CPU threads for onnxruntime.")]
FileArgument = Annotated[str, typer.Argument(metavar="FILE.onnx", help="A file made by `edgegpt export`.")]


def print_json(data: Any) -> None:
    """Print one JSON document; JSON has no NaN and no infinity, they become null."""
    from pydantic_core import to_json

    try:
        print(to_json(data, indent=2, inf_nan_mode="null").decode(), flush=True)
    except BrokenPipeError:
        stdout.on_broken_pipe()


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    total: bool = False,
    numbers: bool = True,
) -> Table:
    """Return a table of a text column and number columns; `total` separates the last row."""
    result = Table(title=title, title_justify="left", show_header=any(columns))
    for i, column in enumerate(columns):
        result.add_column(column, justify="right" if numbers and i else "left", overflow="fold")
    for i, row in enumerate(rows):
        result.add_row(*row, end_section=total and i == len(rows) - 2)
    return result


def megabytes(n: float) -> str:
    """Return bytes as kB or MB, powers of ten."""
    return f"{n / 1e6:.2f} MB" if n >= 1e6 else f"{n / 1e3:.1f} kB"
