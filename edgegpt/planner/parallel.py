"""Run the ranges of a search one after another, or in processes; always in order."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process, resource_tracker
from threading import Thread
from typing import Final, Protocol, TypeVar

from edgegpt.errors import ConfigError, MeasureError
from edgegpt.planner.search import Job

Result = TypeVar("Result")
Task = Callable[[Job, int, int], Result]

RANGE: Final = 32  # shapes; the same however many work on them
_MOST: Final = 1024


class Spread(Protocol):
    """The result of a task for each range of a job, in order."""

    def __call__(self, task: Task[Result], /) -> Iterator[Result]:
        """Begin at once."""


def ranges(job: Job) -> list[tuple[int, int]]:
    """Start and stop of each part of the search."""
    n = len(job.space.shapes())
    return [(start, min(start + RANGE, n)) for start in range(0, n, RANGE)]


def check_workers(workers: int) -> None:
    """Raise ConfigError where so many processes cannot be."""
    if not 1 <= workers <= _MOST:
        raise ConfigError(f"workers must be within 1 and {_MOST}, got {workers}")


@contextmanager
def processes(job: Job, workers: int) -> Iterator[Spread]:
    """With one worker or range here, else in fresh processes, which serve all tasks and end with this one.

    Raises:
        MeasureError: a process was ended from outside.
    """
    parts = ranges(job)
    workers = min(workers, len(parts))
    if workers <= 1:
        yield lambda task: (task(job, start, stop) for start, stop in parts)
        return
    # Not forked: onnxruntime may have threads here, which a copy of this process would not have.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_end_with_parent)

    def spread(task: Task[Result]) -> Iterator[Result]:
        with _no_interrupts():
            return pool.map(task, *_columns(job, parts))

    try:
        yield spread
    except BrokenProcessPool as e:
        raise MeasureError(
            f"one of {workers} processes of the search ended before its work was done; the system may have "
            "run out of memory, and one worker needs the least"
        ) from e
    finally:
        with (
            _no_interrupts()
        ):  # a second Ctrl-C would leave processes that wait for this one, and it for them
            pool.shutdown(cancel_futures=True)


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Ctrl-C waits until the end; processes that are started inside never get it, not even importing."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # its start would take the block away again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """In a new process: end as soon as the one that started it has, however that ended."""
    parent = parent_process()
    assert parent is not None  # multiprocessing started this one

    def watch() -> None:
        parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _columns(job: Job, parts: Sequence[tuple[int, int]]) -> tuple[list[Job], list[int], list[int]]:
    return [job] * len(parts), [start for start, _ in parts], [stop for _, stop in parts]
