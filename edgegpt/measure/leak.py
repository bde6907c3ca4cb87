"""How the memory of this process grows from request to request."""

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
_MOMENTS: Final = 50  # at which memory is looked at
_SECONDS: Final = 30.0  # of warm-up, at most


@dataclass(frozen=True)
class Growth:
    """What became of the memory.

    Attributes:
        kb_per_1000: of private memory in 1000 requests, 10^3 bytes.
        requests: that were watched, after about as many to warm up.
    """

    kb_per_1000: float
    requests: int


def growth(engine: Engine, requests: int, seed: int) -> Growth | None:
    """Watch so many requests after as many to warm up, or as many as a slow model answers in half a minute.

    Memory is made by calls and by the lengths of prompts, hardly by one more step of an answer. So answers
    are short, and so are most prompts, which lets allocators and pools see every length soon. Only private
    pages count; mapped ones come and go with the system. The slope is the usual one between every two
    moments (after Theil 1950 and Sen 1968): a single jump of an allocator leaves it alone, what goes on does
    not.

    Args:
        engine: what answers; each request has a cache of its own.
        requests: at least 1; some 50 are watched always.
        seed: of prompts and lengths.

    Returns:
        None where the system does not tell the memory of a process.
    """
    rng, ids = Random(seed), random_ids(engine, engine.capacity)
    longest = max(1, min(_LONGEST_PROMPT, engine.capacity - _LONGEST_ANSWER))

    def ask() -> None:
        n = round(longest ** rng.random())  # as many of 1 to 8 as of 8 to 64
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
    """Of values (n,) at even distances, what a step adds as a rule: 0 where all growth is one single jump.

    A jump lies between up to 51 % of all pairs, so the slope that 45 % of them do not exceed is taken and
    not their median. The deepest fall, as of a pool that is given back, would hide what grows on both sides
    of it; it counts as a step like the others.
    """
    steps = np.diff(values)
    steps[steps.argmin()] = np.median(steps)
    values = np.cumsum(np.concatenate([values[:1], steps]))
    first, second = np.triu_indices(values.size, k=1)
    return float(np.quantile((values[second] - values[first]) / (second - first), 0.45))
