"""Measure attention by new and cached tokens, and the cost of fetching the cache."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from edgegpt.contract import past_names, present_names
from edgegpt.prediction import Attention, CacheStreaming, Curve
from edgegpt.profiling.matmul import TOKENS, above_near, largest_working_set_mb
from edgegpt.profiling.timing import Graphs, Run, bind, burst_us, fastest_us, fit, sweeper
from edgegpt.runtime import open_session

_LAYERS: Final = 2
_HEADS: Final = ((2, 32), (8, 32), (4, 64), (12, 64))  # n_head, head_dim
_CACHED: Final = (0, 64, 256, 960)
_CAPACITY: Final = 1024
_FLOAT_MB: Final = 4e-6

_STREAM_HEADS: Final = (8, 32)
_STREAM_CACHED: Final = 240
_STREAM_LAYERS: Final = (1, 2, 4, 8, 16, 32, 64, 80, 96, 112, 128, 160, 192)  # half a MB each


def measure_cache_streaming(
    graphs: Graphs, threads: int, call_us: float, seconds: float
) -> Iterator[CacheStreaming]:
    """Yield what fetching a MB of keys and values costs, by working set; 0 in the smallest.

    Larger working sets are left out where memory is small; costs never fall as they grow.
    """
    largest = largest_working_set_mb()
    n_head, head_dim, total = *_STREAM_HEADS, _STREAM_CACHED + 1
    each = 2 * n_head * head_dim * total * _FLOAT_MB
    layers = [n for n in _STREAM_LAYERS if n * each <= largest]
    found: dict[float, float] = {}
    sweep = sweeper()
    for n in layers:
        run = _calls(graphs, threads, (n, n_head, head_dim), total, [(1, _STREAM_CACHED)])[1, _STREAM_CACHED]
        us = burst_us(run, sweep, seconds / len(layers))
        found[n * each] = (us - call_us) / (n * each)
    for size, us_per_mb in above_near(found).items():
        yield CacheStreaming(working_set_mb=size, us_per_mb=us_per_mb)


def measure_attention(
    graphs: Graphs, threads: int, call_us: float, streaming: list[CacheStreaming], seconds: float
) -> Iterator[Attention]:
    """Yield the cost of one layer as a sum of terms, for each number of new tokens."""
    runs: dict[tuple[int, int, int, int], Run] = {}
    lengths = [(tokens, cached) for tokens in TOKENS for cached in _CACHED]
    for n_head, head_dim in _HEADS:
        calls = _calls(graphs, threads, (_LAYERS, n_head, head_dim), _CAPACITY, lengths)
        runs |= {(n_head, head_dim, *length): run for length, run in calls.items()}
    found = fastest_us(runs, seconds)
    fetch = Curve.of_cache(streaming)
    for tokens in TOKENS:
        terms, measured = [], []
        for n_head, head_dim in _HEADS:
            width = n_head * head_dim
            for cached in _CACHED:
                total = cached + tokens
                us = (found[n_head, head_dim, tokens, cached] - call_us) / _LAYERS
                size = 2 * width * total * _FLOAT_MB
                measured.append(us - size * fetch.at(tokens, _LAYERS * size))
                pairs = tokens * total
                terms.append((1.0, width * tokens / 1e3, width * pairs / 1e6, n_head * pairs / 1e3))
        node, by_values, by_products, by_scores = fit(terms, measured)
        yield Attention(
            tokens=tokens,
            node_us=node,
            us_per_1000_values=by_values,
            us_per_million_products=by_products,
            us_per_1000_scores=by_scores,
        )


def _calls(
    graphs: Graphs,
    threads: int,
    shape: tuple[int, int, int],
    capacity: int,
    lengths: list[tuple[int, int]],
) -> dict[tuple[int, int], Run]:
    """Return calls of n_layer, n_head, head_dim by (new, cached) tokens, all on the same caches."""
    n_layer, n_head, head_dim = shape
    session = open_session(graphs.attention(n_layer, n_head, head_dim), threads)
    rng = np.random.default_rng(0)
    cache = (1, n_head, capacity, head_dim)
    arrays = [rng.standard_normal(cache, np.float32) for _ in range(2 * n_layer)]
    past = [name for i in range(n_layer) for name in past_names(i)]
    present = [name for i in range(n_layer) for name in present_names(i)]
    calls: dict[tuple[int, int], Run] = {}
    for tokens, cached in lengths:
        x = rng.standard_normal((1, tokens, 3 * n_head * head_dim), np.float32)
        total = cached + tokens
        inputs = {"x": x, "last": np.array([total - 1], np.int32), "total": np.array(total, np.int32)}
        inputs |= dict(zip(past, arrays, strict=True))
        calls[tokens, cached] = bind(session, inputs, dict(zip(present, arrays, strict=True)))
    return calls
