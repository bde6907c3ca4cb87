"""Times of an engine in this process.

Both measure what a greedy request pays in the engine: the graph, the check for NaN, argmax and the
bookkeeping of `Engine.generate`. Tokenising, drawing from a distribution and turning ids into text are
not in them.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np

from edgegpt.engine import Engine
from edgegpt.errors import MeasureError
from edgegpt.kv_cache import KVCache
from edgegpt.measure.distribution import Distribution
from edgegpt.sampling import SamplingParams

MS: Final = 1000.0


def measure_first_token(
    engine: Engine, prompt_tokens: int, repeats: int, *, cache: KVCache | None = None
) -> Distribution:
    """Milliseconds from prompt ids to the first new id, after one repeat to warm up.

    Args:
        engine: what is measured.
        prompt_tokens: from 1 to engine.capacity.
        repeats: number of samples, at least 1.
        cache: is overwritten; None makes one.

    Raises:
        MeasureError: an argument is out of its range. The engine's own errors pass through.
    """
    _check("prompt_tokens", prompt_tokens, 1, engine.capacity)
    _check("repeats", repeats, 1)
    cache = engine.new_cache() if cache is None else cache
    ids = random_ids(engine, prompt_tokens)
    first_token_ms(engine, cache, ids)
    return Distribution(tuple(first_token_ms(engine, cache, ids) for _ in range(repeats)))


def measure_tokens(engine: Engine, cache_fill: int, n: int, *, cache: KVCache | None = None) -> Distribution:
    """Milliseconds of n further tokens, the first of which finds `cache_fill` tokens in the cache.

    Args:
        engine: what is measured.
        cache_fill: from 1 to engine.capacity - n - 1.
        n: number of samples, at least 1.
        cache: is overwritten; None makes one.

    Raises:
        MeasureError: an argument is out of its range. The engine's own errors pass through.
    """
    _check("n", n, 1, engine.capacity - 2)
    _check("cache_fill", cache_fill, 1, engine.capacity - n - 1)
    cache = engine.new_cache() if cache is None else cache
    ids = random_ids(engine, cache_fill)
    cache.rewind(0)
    engine.prefill(cache, ids)
    return Distribution(tuple(token_ms(engine, cache, ids, n)))


def first_token_ms(engine: Engine, cache: KVCache, ids: Sequence[int]) -> float:
    """One sample: the cache is emptied, the ids are read, the first new id is chosen."""
    cache.rewind(0)
    tokens = engine.generate(ids, _greedy(1), cache=cache)
    start = perf_counter()
    next(tokens)
    return MS * (perf_counter() - start)


def token_ms(engine: Engine, cache: KVCache, ids: Sequence[int], n: int) -> list[float]:
    """One burst: n samples, from the token that finds all of `ids` in the cache on.

    The cache holds at least all ids but the last, and stays full of what came after them.
    """
    cache.rewind(len(ids) - 1)
    tokens = engine.generate(ids[-1:], _greedy(n + 1), cache=cache)
    next(tokens)  # reads the last id as a prompt of one
    marks = [perf_counter()]
    for _ in tokens:
        marks.append(perf_counter())
    return [MS * (end - start) for start, end in pairwise(marks)]


def random_ids(engine: Engine, n: int) -> list[int]:
    """The same n ids in every run, spread over all that may be generated."""
    ids: list[int] = np.random.default_rng(0).integers(engine.n_valid, size=n).tolist()
    return ids


def waited_seconds() -> float | None:
    """How long this thread was ready to run and did not, since its start (sched-stats of the kernel)."""
    try:
        return int(Path("/proc/self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None


def _greedy(max_new_tokens: int) -> SamplingParams:
    return SamplingParams(max_new_tokens=max_new_tokens, temperature=0.0)


def _check(name: str, value: int, low: int, high: int | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise MeasureError(f"{name} must be a whole number, got {value!r}")
    if value < low:
        raise MeasureError(f"{name} must be at least {low}, got {value}")
    if high is not None and value > high:
        raise MeasureError(f"{name} must be at most {high} with this context, got {value}")
