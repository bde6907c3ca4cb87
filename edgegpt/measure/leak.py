"""Measure how the memory of this process grows from request to request."""

from dataclasses import dataclass
from random import Random
from time import perf_counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from edgegpt.measure.timing import random_ids
from edgegpt.runtime import Engine, SamplingParams
from edgegpt.system import memory

_LONGEST_PROMPT: Final = 64
_LONGEST_ANSWER: Final = 4
_MOMENTS: Final = 50  # number of times that memory is read
_SECONDS: Final = 30.0  # longest warm-up


@dataclass(frozen=True)
class Growth:
    """Growth of memory over many requests.

    Attributes:
        kb_per_1000: growth of private memory in 1000 requests, in 10^3 bytes.
        requests: number of requests it was measured over, after a warm-up of about the same number.
    """

    kb_per_1000: float
    requests: int


def growth(engine: Engine, requests: int, seed: int) -> Growth | None:
    """Measure memory growth over `requests` requests, after a warm-up of the same number.

    The warm-up of a slow model ends after half a minute, and the same number is then measured. Memory is
    allocated by calls and by prompt lengths, hardly by one more decode step. So answers are short, and so are
    most prompts, so that allocators see every length early. Only private pages count; mapped
    ones come and go with the system. The slope is a robust one over every two moments (after Theil 1950 and
    Sen 1968): a single jump of an allocator does not change it, continued growth does.

    Args:
        engine: answers the requests; each has a cache of its own.
        requests: at least 1; at least some 50 are measured.
        seed: seed of prompts and lengths.

    Returns:
        None where the system does not report the memory of a process.
    """
    rng, ids = Random(seed), random_ids(engine, engine.capacity)
    longest = max(1, min(_LONGEST_PROMPT, engine.capacity - _LONGEST_ANSWER))

    def ask() -> None:
        n = round(longest ** rng.random())  # equally often 1 to 8 and 8 to 64
        start = rng.randrange(len(ids) - n + 1)
        answer = SamplingParams(max_new_tokens=rng.randint(1, _LONGEST_ANSWER), temperature=0.0)
        for _ in engine.generate(ids[start : start + n], answer):
            pass

    warmed_up, end = 0, perf_counter() + _SECONDS
    while warmed_up < requests and perf_counter() < end:
        ask()
        warmed_up += 1
    every = max(1, warmed_up // _MOMENTS)
    private = np.ones(_MOMENTS + 1)  # takes its pages now
    for i in range(_MOMENTS + 1):
        if (now := memory()) is None:
            return None
        private[i] = now.private_bytes
        for _ in range(every if i < _MOMENTS else 0):
            ask()
    # bytes a request are kB in 1000
    return Growth(steady_slope(private) / every, every * _MOMENTS)


def steady_slope(values: NDArray[np.float64]) -> float:
    """Return the typical growth of one step of evenly spaced values (n,): 0 where all growth is one jump.

    A jump separates up to 51 % of all pairs, so the 45th percentile of the slopes is taken and not the
    median. The deepest fall, such as a pool that is freed, would hide growth before and after it; it is
    replaced by the median step.
    """
    steps = np.diff(values)
    steps[steps.argmin()] = np.median(steps)
    values = np.cumsum(np.concatenate([values[:1], steps]))
    first, second = np.triu_indices(values.size, k=1)
    return float(np.quantile((values[second] - values[first]) / (second - first), 0.45))
