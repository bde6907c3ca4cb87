"""The fastest of many interleaved calls, or their median."""

import statistics
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Final, TypeVar

Key = TypeVar("Key")

_MIN_ROUNDS: Final = 4
_CALLS: Final = 3  # of one kind in a round, after one that brings its weights near
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
    """The same, but the median: for what depends on who else uses a cache, where luck is no measure."""
    return {key: statistics.median(samples) for key, samples in _samples(runs, seconds).items()}


def _samples(runs: Mapping[Key, Callable[[], None]], seconds: float) -> dict[Key, list[float]]:
    samples: dict[Key, list[float]] = {key: [] for key in runs}
    rounds, end = 0, perf_counter() + seconds
    while rounds < _MIN_ROUNDS or perf_counter() < end:
        for key, run in runs.items():
            run()
            for _ in range(_CALLS):
                start = perf_counter()
                run()
                samples[key].append(_US * (perf_counter() - start))
        rounds += 1
    return samples
