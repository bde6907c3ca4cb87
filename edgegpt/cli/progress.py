"""A progress bar or status line for what takes more than a second.

It is redrawn only when there is something new: on a board with one core, drawing takes the core of the
process that is measured.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Final

from rich.text import Text

from edgegpt.cli.output import stderr

_EVERY_SECONDS: Final = 1.0  # between two updates of a bar


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
