"""Attention by new and cached tokens."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from edgegpt.contract import past_names, present_names
from edgegpt.interpolation import Curve
from edgegpt.ort_session import open_session
from edgegpt.profiling.bound import Run, bound
from edgegpt.profiling.clock import fastest_us
from edgegpt.profiling.fit import fit
from edgegpt.profiling.graphs import Graphs
from edgegpt.profiling.products import TOKENS
from edgegpt.target import Attention, Streaming

_LAYERS: Final = 2
_HEADS: Final = ((2, 32), (8, 32), (4, 64), (12, 64))  # n_head, head_dim
_CACHED: Final = (0, 64, 256, 960)
_CAPACITY: Final = 1024
_FLOAT_MB: Final = 4e-6


def measure_attention(
    graphs: Graphs, threads: int, call_us: float, streaming: list[Streaming], seconds: float
) -> Iterator[Attention]:
    """One layer's cost as a sum of terms, for each number of new tokens."""
    runs: dict[tuple[int, int, int, int], Run] = {}
    for n_head, head_dim in _HEADS:
        session = open_session(graphs.attention(_LAYERS, n_head, head_dim), threads)
        arrays = [np.zeros((1, n_head, _CAPACITY, head_dim), np.float32) for _ in range(2 * _LAYERS)]
        past = [name for i in range(_LAYERS) for name in past_names(i)]
        present = [name for i in range(_LAYERS) for name in present_names(i)]
        for tokens in TOKENS:
            x = np.random.default_rng(0).standard_normal((1, tokens, 3 * n_head * head_dim), np.float32)
            for cached in _CACHED:
                total = cached + tokens
                inputs = {"x": x, "last": np.array([total - 1], np.int32), "total": np.array(total, np.int32)}
                inputs |= dict(zip(past, arrays, strict=True))
                outputs = dict(zip(present, arrays, strict=True))
                runs[n_head, head_dim, tokens, cached] = bound(session, inputs, outputs)
    found = fastest_us(runs, seconds)
    further = Curve.of_streaming(streaming, 32)
    for tokens in TOKENS:
        terms, measured = [], []
        for n_head, head_dim in _HEADS:
            width = n_head * head_dim
            for cached in _CACHED:
                total = cached + tokens
                us = (found[n_head, head_dim, tokens, cached] - call_us) / _LAYERS
                size = 2 * width * total * _FLOAT_MB
                measured.append(us - size * further.at(tokens, _LAYERS * size))
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
