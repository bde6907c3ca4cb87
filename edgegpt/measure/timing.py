"""Times of an engine in this process.

They are what a greedy request pays in the engine: the graph, the check for NaN, argmax and the bookkeeping
of `Engine.generate`. Tokenising, drawing from a distribution and turning ids into text are not in them.
"""

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from time import perf_counter
from typing import Final

from edgegpt.runtime.engine import Engine
from edgegpt.runtime.kv_cache import KVCache
from edgegpt.runtime.sampling import SamplingParams

MS: Final = 1000.0


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
    """The same n ids in every run, spread over all that may be generated.

    By Python's own generator: numpy.random would take 7 MB of a process whose memory is measured.
    """
    return Random(0).choices(range(engine.n_valid), k=n)


def _greedy(max_new_tokens: int) -> SamplingParams:
    return SamplingParams(max_new_tokens=max_new_tokens, temperature=0.0)
