"""Run the ranges of a search one after another or in processes, with results always in order."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from threading import current_thread, main_thread
from typing import Final, Protocol, TypeVar

from edgegpt.errors import ConfigError, MeasureError
from edgegpt.measure import end_with_parent
from edgegpt.planner.search import Job

Result = TypeVar("Result")
Task = Callable[[Job, int, int], Result]

RANGE: Final = 32  # shapes; the same for any number of workers
_MOST: Final = 1024


class Spread(Protocol):
    """A way to run a task for each range of a job."""

    def __call__(self, task: Task[Result], /) -> Iterator[Result]:
        """Start the task for all ranges and return their results in order."""


def ranges(job: Job) -> list[tuple[int, int]]:
    """Return start and stop of each part of the search."""
    n = len(job.space.shapes())
    return [(start, min(start + RANGE, n)) for start in range(0, n, RANGE)]


def check_workers(workers: int) -> None:
    """Raise ConfigError unless `workers` is within its range."""
    if not 1 <= workers <= _MOST:
        raise ConfigError(f"workers must be within 1 and {_MOST}, got {workers}")


@contextmanager
def processes(job: Job, workers: int) -> Iterator[Spread]:
    """Run tasks in this process if workers or ranges are one, else in fresh processes that end with this one.

    Raises:
        MeasureError: a process was ended from outside.
    """
    parts = ranges(job)
    workers = min(workers, len(parts))
    if workers <= 1:
        yield lambda task: (task(job, start, stop) for start, stop in parts)
        return
    # Not forked: onnxruntime may have threads here, which a copy of this process would not have.
    context = get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, initializer=end_with_parent, initargs=(os.getpid(),))
    starts, stops = zip(*parts, strict=True)

    def spread(task: Task[Result]) -> Iterator[Result]:
        with _ignored_interrupts():
            return pool.map(task, [job] * len(parts), starts, stops)

    try:
        yield spread
    except BrokenProcessPool as e:
        raise MeasureError(
            f"one of {workers} processes of the search ended before its work was done; the system may have "
            "run out of memory, and --workers 1 needs the least"
        ) from e
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _ignored_interrupts() -> Iterator[None]:
    """Let processes that start inside inherit an ignored Ctrl-C: this one receives it and ends them."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
