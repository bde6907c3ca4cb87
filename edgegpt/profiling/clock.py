"""The fastest of many interleaved calls."""

import math
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
    best = dict.fromkeys(runs, math.inf)
    rounds, end = 0, perf_counter() + seconds
    while rounds < _MIN_ROUNDS or perf_counter() < end:
        for key, run in runs.items():
            run()
            for _ in range(_CALLS):
                start = perf_counter()
                run()
                best[key] = min(best[key], perf_counter() - start)
        rounds += 1
    return {key: _US * value for key, value in best.items()}
