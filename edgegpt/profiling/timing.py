"""The fastest of many interleaved calls; what bursts of one call take.

Sums of terms that are not negative, fitted by least squares of the relative errors.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from time import perf_counter
from typing import Final, TypeVar

import numpy as np

from edgegpt.measure import BURST, beyond_cache_bytes

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


def fit(terms: Sequence[Sequence[float]], measured: Sequence[float]) -> tuple[float, ...]:
    """Coefficients c >= 0 for which the sums of c_j * terms[i][j] come closest to measured[i].

    Few terms, so every choice of those that are not 0 is solved, and the best that needs no negative
    one is taken: it is the solution of the problem (Lawson and Hanson, Solving Least Squares Problems,
    1974, chapter 23). Each row is divided by what was measured, so that a small model counts as much as a
    large one; a row that is not above 0 (noise ate it) is left out.
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
