"""Measure matrix products by shape, bits and tokens, and the cost of fetching weights."""

import math
import tempfile
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Final

from edgegpt.prediction import Bits, Curve, Product, Streaming
from edgegpt.profiling.timing import Graphs, Run, burst_us, call_rows, fastest_us, fit, sweeper
from edgegpt.quantization import matrix_bytes
from edgegpt.runtime import open_session
from edgegpt.system import available_memory_bytes

TOKENS: Final = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)  # rows at once: a decode step and chunks of a prompt

# Inputs that give a block, by bits and block; widths of models are multiples of 32 and mostly of 64.
_INPUTS: Final[dict[tuple[Bits, int], tuple[int, ...]]] = {
    (32, 0): (64, 192, 512, 1024),
    (8, 256): (256, 768, 1024),
    (8, 128): (128, 384, 640),
    (8, 64): (64, 192, 576),
    (8, 32): (96, 288, 480),
    (4, 128): (128, 512, 1024),
    (4, 64): (64, 192, 576),
    (4, 32): (96, 288, 480),
}
_OUTPUTS: Final = (128, 512, 1536)
_NEAR_MB: Final = 1.0  # weights of one graph whose shapes are compared
_MOST_NODES: Final = 32

_STREAM_MB: Final = {
    1: (0.5, 1, 2, 4, 8, 16, 32, 40, 48, 56, 64, 80, 96, 128, 256),
    8: (0.5, 2, 8, 40, 64, 128),
    64: (0.5, 2, 8),
}
_STREAM_CALLS: Final = 3 * sum(map(len, _STREAM_MB.values()))
_STREAM_SHAPE: Final = (512, 512)
_SHARE_OF_MEMORY: Final = 10  # while a graph is built, several copies exist


def measure_streaming(graphs: Graphs, threads: int, call_us: float, seconds: float) -> Iterator[Streaming]:
    """Yield what fetching a MB of weights costs, by bits, tokens and working set; 0 in the smallest.

    Larger sizes are left out where memory is small. Noise is corrected by known properties: costs
    never fall as the working set grows, nor rise with the tokens, which use each byte more often.
    """
    largest = largest_working_set_mb()
    sizes = [size for size in _STREAM_MB[1] if size <= largest]
    sweep = sweeper()
    for bits in (32, 8, 4):
        each = matrix_bytes(*_STREAM_SHAPE, bits) / 1e6
        found: dict[int, dict[float, float]] = {tokens: {} for tokens in _STREAM_MB}
        for size in sizes:
            n = max(1, round(size / each))
            with tempfile.TemporaryDirectory() as folder:
                # From a file: mapped weights are in small pages, which makes them slower to read.
                path = Path(folder) / "products.onnx"
                graphs.write_matmuls(path, n, *_STREAM_SHAPE, bits)
                session = open_session(path, threads)
                for tokens in (t for t, of_these in _STREAM_MB.items() if size in of_these):
                    us = burst_us(call_rows(session, tokens), sweep, seconds / _STREAM_CALLS)
                    found[tokens][n * each] = (us - call_us) / (n * each)
        one = above_near(found[1])
        for tokens, points in found.items():
            for size, us_per_mb in above_near(points).items():
                yield Streaming(
                    bits=bits, tokens=tokens, working_set_mb=size, us_per_mb=min(us_per_mb, one[size])
                )


def largest_working_set_mb() -> float:
    """Return the MB that may be measured in the free memory, at least 2."""
    free = available_memory_bytes()
    return math.inf if free is None else max(free / _SHARE_OF_MEMORY / 1e6, 2.0)


def above_near(points: dict[float, float]) -> dict[float, float]:
    """Return the cost of each size above the first, at most that of a larger size: noise only adds time."""
    near = next(iter(points.values()))
    least = accumulate((max(0.0, cost - near) for cost in reversed(points.values())), min)
    return dict(zip(points, reversed(list(least)), strict=True))


def measure_products(
    graphs: Graphs, threads: int, call_us: float, streaming: list[Streaming], seconds: float
) -> Iterator[Product]:
    """Yield the cost of a matrix product as a sum of terms, for each bits, block and number of tokens."""
    for (bits, block), inputs in _INPUTS.items():
        shapes = [(outputs, k) for outputs in _OUTPUTS for k in inputs]
        sizes = {shape: matrix_bytes(*shape, bits) / 1e6 for shape in shapes}
        counts = {shape: min(_MOST_NODES, max(2, round(_NEAR_MB / sizes[shape]))) for shape in shapes}
        runs: dict[tuple[tuple[int, int], int], Run] = {}
        for shape in shapes:
            session = open_session(graphs.matmuls(counts[shape], *shape, bits), threads)
            runs |= {(shape, tokens): call_rows(session, tokens) for tokens in TOKENS}
        found = fastest_us(runs, seconds / len(_INPUTS))
        fetch = Curve.of_streaming(streaming, bits)
        for tokens in TOKENS:
            terms, measured = [], []
            for (outputs, k), size in sizes.items():
                n = counts[outputs, k]
                us = (found[(outputs, k), tokens] - call_us) / n
                measured.append(us - size * fetch.at(tokens, n * size))
                terms.append((1.0, k / 1e3, outputs / 1e3, k * outputs / 1e6))
            node, by_inputs, by_outputs, by_weights = fit(terms, measured)
            yield Product(
                bits=bits,
                block=block,
                tokens=tokens,
                node_us=node,
                us_per_1000_inputs=by_inputs,
                us_per_1000_outputs=by_outputs,
                us_per_million_weights=by_weights,
            )
