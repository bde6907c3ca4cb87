"""Measure how fast this machine reads memory."""

import math
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from edgegpt.measure.machine import last_level_cache_bytes
from edgegpt.measure.spec import Bandwidth
from edgegpt.system import available_memory_bytes

_SECONDS: Final = 0.3
_MIN_PASSES: Final = 5
_PASS_BYTES: Final = 16_000_000  # a smaller buffer is read several times, or starting threads would count
_CALLS: Final = 1000
_LEAST_SHARE: Final = 0.1  # smallest share of a pass that counts as reading
_BEYOND_CACHE: Final = 2  # times the last cache
_SMALLEST: Final = 256_000_000  # bytes; also where the size of the caches is unknown
_SHARE_OF_MEMORY: Final = 4  # at most a fourth of what is free


def read_bandwidth(n_bytes: int, threads: int = 1, seconds: float = _SECONDS) -> Bandwidth:
    """Read a buffer of about n_bytes repeatedly with numpy's maximum, which vectorises and only reads.

    The fastest pass counts, as in STREAM (McCalpin 1995): noise only ever adds time. The cost of numpy's call
    itself is subtracted; for a buffer below a megabyte it is most of the time.

    Args:
        n_bytes: size of the buffer, split evenly among the threads.
        threads: number of threads that read at the same time.
        seconds: duration; at least some passes are made.
    """
    words = max(1, n_bytes // 8 // threads)
    parts = [np.ones(words, np.uint64) for _ in range(threads)]
    times = max(1, _PASS_BYTES // (8 * words))

    def read(part: NDArray[np.uint64]) -> None:
        for _ in range(times):
            part.max()  # frees the GIL

    best, passes, end = math.inf, 0, perf_counter() + seconds
    with ThreadPoolExecutor(threads) as pool:
        while passes < _MIN_PASSES or perf_counter() < end:
            start = perf_counter()
            list(pool.map(read, parts))
            best = min(best, perf_counter() - start)
            passes += 1
    total, calls = 8 * words * threads, times * _call_seconds()
    return Bandwidth(total, total * times / max(best - calls, _LEAST_SHARE * best))


def _call_seconds() -> float:
    """Return the cost of numpy's call around the reading: the fastest of some on a single word."""
    word, best = np.ones(1, np.uint64), math.inf
    for _ in range(_CALLS):
        start = perf_counter()
        word.max()
        best = min(best, perf_counter() - start)
    return best


def beyond_cache_bytes() -> int:
    """Return the size of a buffer that no cache holds: twice the last, at most a fourth of free memory."""
    wanted = max(_SMALLEST, _BEYOND_CACHE * (last_level_cache_bytes() or 0))
    free = available_memory_bytes()
    return wanted if free is None else min(wanted, free // _SHARE_OF_MEMORY)
