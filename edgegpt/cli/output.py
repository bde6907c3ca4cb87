"""What all commands share: options, files to write, tables, JSON and progress."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from edgegpt.errors import MeasureError
from edgegpt.files import try_to_begin

# A bar moves once in this time, and only when there is something new: on a board with one core, drawing takes
# the core of the process that is measured.
_EVERY_SECONDS: Final = 1.0


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


@contextmanager
def steps(first: str = "starting") -> Iterator[Callable[[str], None]]:
    """Yield a callback for status text, which is shown on a terminal only."""
    from rich.live import Live

    def line(step: str) -> Text:
        return Text(f"\N{BULLET} {step}", no_wrap=True, overflow="ellipsis")

    with Live(line(first), console=stderr, auto_refresh=False, transient=True) as live:
        yield lambda step: live.update(line(step), refresh=True)


@contextmanager
def measuring(*, visible: bool) -> Iterator[Callable[[float], None]]:
    """Yield a callback for the share that is done, from 0 to 1; the bar is shown on a terminal only."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("measuring"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeElapsedColumn(),
    )
    shown = visible and stderr.is_terminal
    with Progress(*columns, console=stderr, disable=not shown, transient=True, auto_refresh=False) as bar:
        task, drawn = bar.add_task("", total=1.0), float("-inf")

        def move(share: float) -> None:
            nonlocal drawn
            bar.update(task, completed=share)
            if perf_counter() > drawn + _EVERY_SECONDS:
                drawn = perf_counter()
                bar.refresh()

        yield move


def out_file(text: str) -> Path:
    """Parse the value of an option that names a file to write; an empty one would be the current folder."""
    if not text:
        raise typer.BadParameter("expected the name of a file to write, got ''")
    return Path(text)


def check_out_file(option: str, path: Path, suffixes: Sequence[str]) -> None:
    """Check that the file which `option` names can be written.

    Raises:
        MeasureError: the name has another suffix, is that of a folder, or no file can be made there.
    """
    if path.suffix.lower() not in suffixes or path.is_dir():
        raise MeasureError(f"{option} must name a file ending in {' or '.join(suffixes)}, got {str(path)!r}")
    if not path.parent.exists():
        raise MeasureError(f"{option} cannot write {path}: the folder {path.parent} does not exist")
    try:
        try_to_begin(path)
    except OSError as e:
        raise MeasureError(f"{option} cannot write {path}: {e.strerror or e}") from e


def schema_comment(out: Path, kind: str) -> str:
    """Return the first line of a YAML file, which names the schema of a `kind` such as `model` to editors.

    It is empty where `out` is neither in a folder of configs nor in the repository's root.
    """
    for folder in ("../schemas", "configs/schemas"):
        if (out.parent / folder).is_dir():
            return f"# yaml-language-server: $schema={folder}/{kind}.schema.json\n"
    return ""
