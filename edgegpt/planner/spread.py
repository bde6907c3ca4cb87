"""Run the ranges of a search one after another, in processes, or on a Ray cluster; always in order."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Final, TypeVar

from edgegpt.errors import ConfigError, MeasureError
from edgegpt.planner.search import Job

Result = TypeVar("Result")
Task = Callable[[Job, int, int], Result]

RANGE: Final = 32  # shapes; the same however many work on them
_MOST: Final = 1024


def ranges(job: Job) -> list[tuple[int, int]]:
    """Start and stop of each part of the search."""
    n = len(job.space.shapes())
    return [(start, min(start + RANGE, n)) for start in range(0, n, RANGE)]


def check_workers(workers: int) -> None:
    """Raise ConfigError where so many processes cannot be."""
    if not 1 <= workers <= _MOST:
        raise ConfigError(f"workers must be within 1 and {_MOST}, got {workers}")


def in_processes(task: Task[Result], job: Job, workers: int) -> Iterator[Result]:
    """The result of each range; with one worker here, else in fresh processes."""
    parts = ranges(job)
    if workers == 1:
        for start, stop in parts:
            yield task(job, start, stop)
        return
    # Not forked: onnxruntime may have threads here, which a copy of this process would not have.
    try:
        with ProcessPoolExecutor(min(workers, len(parts)), mp_context=get_context("spawn")) as pool:
            yield from pool.map(task, *_columns(job, parts))
    except BrokenProcessPool as e:
        raise MeasureError(
            f"one of {workers} processes of the search ended before its work was done; the system may have "
            "run out of memory, and one worker needs the least"
        ) from e


def _columns(job: Job, parts: Sequence[tuple[int, int]]) -> tuple[list[Job], list[int], list[int]]:
    return [job] * len(parts), [start for start, _ in parts], [stop for _, stop in parts]
