"""The fastest of many interleaved calls; what bursts of one call take."""

import statistics
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter
from typing import Final, TypeVar

import numpy as np

from edgegpt.measure.bandwidth import beyond_cache_bytes
from edgegpt.measure.spec import BURST

Key = TypeVar("Key")

_MIN_ROUNDS: Final = 4
_CALLS: Final = 3  # of one kind in a round, after one that brings its weights near
_MIN_BURSTS: Final = 3
_BURST_CALLS: Final = 3  # at least, where a call is slow
_BURST_SECONDS: Final = 0.2  # after which a slow call's burst ends
_US: Final = 1e6


def fastest_us(runs: Mapping[Key, Callable[[], None]], seconds: float) -> dict[Key, float]:
    """Microseconds of one call of each, the fastest of all rounds; noise only ever adds time.

    All take turns in every round, so that a busy moment hits all of them and none for long.

    Args:
        runs: what to call, by any key.
        seconds: how long to go on, at least _MIN_ROUNDS rounds.
    """
    return {key: min(samples) for key, samples in _samples(runs, seconds).items()}


def median_us(runs: Mapping[Key, Callable[[], None]], seconds: float) -> dict[Key, float]:
    """As `fastest_us`, but the usual call, for what a lucky one does not need: it leaves threads asleep."""
    return {key: statistics.median(samples) for key, samples in _samples(runs, seconds).items()}


def sweeper() -> Callable[[], object]:
    """What leaves nothing in the caches: the reading of a buffer that none of them holds."""
    return np.ones(beyond_cache_bytes() // 8, np.uint64).max


def burst_us(run: Callable[[], None], sweep: Callable[[], object], seconds: float) -> float:
    """Microseconds of one call, the mean of bursts' medians, each of which finds the caches swept.

    An answer of a robot is such a burst: other work lay before it. A cache that is shared takes up to a
    dozen calls to keep what they read, so that calls without end may be twice as fast as an answer's.
    Not the fastest burst, since what others leave of a cache is luck; and no median of them, which would
    jump from one end to the other where half of them were lucky.

    Args:
        run: the call.
        sweep: what is done before each burst, a `sweeper`.
        seconds: how long to go on, at least _MIN_BURSTS bursts.
    """
    medians: list[float] = []
    end = perf_counter() + seconds
    while len(medians) < _MIN_BURSTS or perf_counter() < end:
        sweep()
        medians.append(statistics.median(_burst(run)))
    return statistics.fmean(medians)


def _burst(run: Callable[[], None]) -> Iterator[float]:
    end = perf_counter() + _BURST_SECONDS
    for i in range(BURST):
        if i >= _BURST_CALLS and perf_counter() > end:
            break
        yield _timed(run)


def _samples(runs: Mapping[Key, Callable[[], None]], seconds: float) -> dict[Key, list[float]]:
    samples: dict[Key, list[float]] = {key: [] for key in runs}
    rounds, end = 0, perf_counter() + seconds
    while rounds < _MIN_ROUNDS or perf_counter() < end:
        for key, run in runs.items():
            run()
            samples[key] += [_timed(run) for _ in range(_CALLS)]
        rounds += 1
    return samples


def _timed(run: Callable[[], None]) -> float:
    start = perf_counter()
    run()
    return _US * (perf_counter() - start)
