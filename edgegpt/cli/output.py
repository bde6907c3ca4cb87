"""What the commands share for printing: tables for people, JSON for machines."""

import json
from collections.abc import Sequence
from math import isfinite
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

# Without markup: a path may hold square brackets.
stdout = Console(highlight=False, markup=False)
stderr = Console(stderr=True, highlight=False, markup=False)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
ThreadsOption = Annotated[int, typer.Option(help="CPU threads of onnxruntime.")]
FileArgument = Annotated[str, typer.Argument(metavar="FILE.onnx", help="A file made by `edgegpt export`.")]


def print_json(data: Any) -> None:
    """Print one JSON document; JSON has no NaN and no infinity, they become null."""
    print(json.dumps(_finite(data), indent=2, ensure_ascii=False, allow_nan=False))


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
