"""A bar or a line of words for what takes more than a second."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.text import Text

from edgegpt.cli.output import stderr


@contextmanager
def steps(first: str = "starting") -> Iterator[Callable[[str], None]]:
    """Call what it gives with what happens next, in a few words; nothing shows where nobody looks."""
    with stderr.status(first) as status:
        yield lambda step: status.update(Text(step))


@contextmanager
def measuring(*, visible: bool) -> Iterator[Callable[[float], None]]:
    """Call what it gives with the share that is done, from 0 to 1; nothing shows where nobody looks."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("measuring"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeElapsedColumn(),
    )
    shown = visible and stderr.is_terminal
    with Progress(*columns, console=stderr, disable=not shown, transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda share: bar.update(task, completed=share)
