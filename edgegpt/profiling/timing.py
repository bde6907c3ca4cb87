"""Time interleaved calls and bursts of one call, and fit sums of terms to the measured times."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from time import perf_counter
from typing import Final, TypeVar

import numpy as np

from edgegpt.measure import BURST, beyond_cache_bytes

Key = TypeVar("Key")

_MIN_ROUNDS: Final = 4
_CALLS: Final = 3  # timed calls in a row, after one that loads its weights into the caches
_MIN_BURSTS: Final = 3
_BURST_CALLS: Final = 3  # at least, where a call is slow
_BURST_SECONDS: Final = 0.2  # longest burst of a slow call
_US: Final = 1e6


def fastest_us(runs: Mapping[Key, Callable[[], object]], seconds: float) -> dict[Key, float]:
    """Return the microseconds of one call of each, the fastest of all rounds: noise only adds time.

    All are called in every round, so that a busy moment affects all of them equally.

    Args:
        runs: functions to call, by any key.
        seconds: measuring time, at least _MIN_ROUNDS rounds.
    """
    fastest = dict.fromkeys(runs, math.inf)
    rounds, end = 0, perf_counter() + seconds
    while rounds < _MIN_ROUNDS or perf_counter() < end:
        for key, run in runs.items():
            run()
            fastest[key] = min(fastest[key], *(_timed(run) for _ in range(_CALLS)))
        rounds += 1
    return fastest


def sweeper() -> Callable[[], object]:
    """Return a function that evicts all caches by reading a buffer larger than them."""
    return np.ones(beyond_cache_bytes() // 8, np.uint64).max


def burst_us(run: Callable[[], object], sweep: Callable[[], object], seconds: float) -> float:
    """Return the microseconds of one call, the mean of the medians of bursts with swept caches.

    A robot's answer is such a burst, with other work before it. A shared cache takes up to a dozen calls to
    keep what they read, so endless calls may be twice as fast as those of an answer. The mean, because the
    fastest burst depends on what other processes leave of a cache, and a median of bursts would jump where
    half of them were lucky.

    Args:
        run: the call.
        sweep: evicts the caches before each burst; a `sweeper`.
        seconds: measuring time, at least _MIN_BURSTS bursts.
    """
    medians: list[float] = []
    end = perf_counter() + seconds
    while len(medians) < _MIN_BURSTS or perf_counter() < end:
        sweep()
        medians.append(statistics.median(_burst(run)))
    return statistics.fmean(medians)


def fit(terms: Sequence[Sequence[float]], measured: Sequence[float]) -> tuple[float, ...]:
    """Return coefficients c >= 0 that bring the sums of c_j * terms[i][j] closest to measured[i].

    Non-negative least squares (Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23), solved
    for every subset of the few terms; the best solution without a negative coefficient is returned. Each
    row is divided by its measured value, so that a small model counts as much as a large one; a value that
    is not above 0, because of noise, is left out.
    """
    a, y = np.asarray(terms, np.float64), np.asarray(measured, np.float64)
    a, y = a[y > 0], y[y > 0]
    n = a.shape[1]
    best, least = np.zeros(n), float(len(y))
    scaled = a / y[:, None]
    for size in range(1, n + 1):
        for chosen in map(list, combinations(range(n), size)):
            solution, *_ = np.linalg.lstsq(scaled[:, chosen], np.ones(len(y)), rcond=None)
            error = float(np.square(scaled[:, chosen] @ solution - 1).sum())
            if (solution >= 0).all() and error < least:
                best, least = np.zeros(n), error
                best[chosen] = solution
    return tuple(float(c) for c in best)


def _burst(run: Callable[[], object]) -> Iterator[float]:
    end = perf_counter() + _BURST_SECONDS
    for i in range(BURST):
        if i >= _BURST_CALLS and perf_counter() > end:
            break
        yield _timed(run)


def _timed(run: Callable[[], object]) -> float:
    start = perf_counter()
    run()
    return _US * (perf_counter() - start)
