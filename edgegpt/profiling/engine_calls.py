"""Measure what engine calls cost in addition to their nodes, and the choice of a token."""

import math
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np

from edgegpt.config import ModelConfig
from edgegpt.measure import BURST, first_token_ms, random_ids, token_ms
from edgegpt.prediction import Call, Calls, Line, ModelWork, OpCosts
from edgegpt.profiling.timing import WriteFile, fastest_us, fit
from edgegpt.quantization import PRECISIONS, recipe
from edgegpt.runtime import Engine, KVCache, SamplingParams, new_rng, open_artifact, percentile, sample

_MODELS: Final = ((16, 2, 1), (16, 2, 8), (128, 4, 4), (256, 8, 4))  # n_embd, n_head, n_layer
_VOCAB_SIZE: Final = 512
_CONTEXT: Final = 256
_PROMPTS: Final = (1, 8, 24, 64)  # one chunk each
_FILLS: Final = (16, 224)
_QUANTILE: Final = 0.2  # near the median on a quiet machine, still undisturbed on a busy one
_MIN_ROUNDS: Final = 4
_VOCABULARIES: Final = (512, 4096, 32768)
# Layers, microseconds of the nodes in a near cache, measured microseconds without fetching.
_Point = tuple[int, float, float]

_DRAW: Final = SamplingParams(temperature=1.0, top_p=0.95, seed=0)


def measure_calls(write_file: WriteFile, threads: int, ops: OpCosts, seconds: float) -> Calls:
    """Fit both kinds of call to small models, and time the choice of a token."""
    greedy, draw = _choice(_greedy, seconds / 10), _choice(_drawer(), seconds / 10)
    models = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.onnx"
        for precision in PRECISIONS:
            for n_embd, n_head, n_layer in _MODELS:
                config = ModelConfig(
                    vocab_size=_VOCAB_SIZE,
                    block_size=_CONTEXT,
                    n_layer=n_layer,
                    n_head=n_head,
                    n_embd=n_embd,
                    tie_embeddings=True,
                )
                write_file(path, config, precision)
                models.append(_Timed(path, config, precision, threads))
    rounds, end = 0, perf_counter() + 0.8 * seconds
    while rounds < _MIN_ROUNDS or perf_counter() < end:
        for model in models:
            model.round()
        rounds += 1
    choice = greedy.node_us + greedy.us_per_1000_values * _VOCAB_SIZE / 1e3
    return Calls(
        step=_fit([point for model in models for point in model.steps(ops)], choice),
        chunk=_fit([point for model in models for point in model.chunks(ops)], choice),
        greedy=greedy,
        draw=draw,
    )


class _Timed:
    """One small engine and its measured times."""

    def __init__(self, path: Path, config: ModelConfig, precision: str, threads: int) -> None:
        self._work = ModelWork.of(config, recipe(config, precision))
        self._engine = Engine.from_artifact(open_artifact(path, threads=threads))
        self._cache: KVCache = self._engine.new_cache()
        self._ids = random_ids(self._engine, _CONTEXT)
        self._first: dict[int, list[float]] = {n: [] for n in _PROMPTS}
        self._token: dict[int, list[float]] = {n: [] for n in _FILLS}

    def round(self) -> None:
        """Measure each prompt and each fill once."""
        for n, samples in self._first.items():
            samples.append(first_token_ms(self._engine, self._cache, self._ids[:n]))
        self._cache.rewind(0)
        self._engine.prefill(self._cache, self._ids[: max(_FILLS)])
        for n in sorted(self._token, reverse=True):
            self._token[n] += token_ms(self._engine, self._cache, self._ids[:n], BURST)

    def steps(self, ops: OpCosts) -> Iterator[_Point]:
        """Yield the points of decode steps."""
        for n, samples in self._token.items():
            yield self._point(samples, ops.call_us(self._work, 1, n + BURST // 2))

    def chunks(self, ops: OpCosts) -> Iterator[_Point]:
        """Yield the points of prompts."""
        for n, samples in self._first.items():
            yield self._point(samples, ops.call_us(self._work, n, 0))

    def _point(self, samples: list[float], ops_us: tuple[float, float]) -> _Point:
        nodes, fetch = ops_us
        return self._work.config.n_layer, nodes, 1e3 * percentile(sorted(samples), _QUANTILE) - fetch


def _fit(points: list[_Point], choice_us: float) -> Call:
    terms = [(1.0, float(n_layer), nodes) for n_layer, nodes, _ in points]
    call, per_layer, factor = fit(terms, [measured - choice_us for *_, measured in points])
    return Call(call_us=call, us_per_layer=per_layer, node_factor=factor)


def _choice(choose: Callable[[np.ndarray], int], seconds: float) -> Line:
    rng = np.random.default_rng(0)
    rows = {n: rng.normal(0.0, 2.0, n).astype(np.float32) for n in _VOCABULARIES}

    found = fastest_us({n: partial(choose, row) for n, row in rows.items()}, seconds)
    node, by_values = fit([(1.0, n / 1e3) for n in found], list(found.values()))
    return Line(node_us=node, us_per_1000_values=by_values)


def _greedy(logits: np.ndarray) -> int:
    """Choose as Engine does: check for NaN, then argmax."""
    if not math.isfinite(logits.dot(logits)):
        return -1
    return int(logits.argmax())


def _drawer() -> Callable[[np.ndarray], int]:
    rng = new_rng(_DRAW)
    return lambda logits: sample(logits, _DRAW, rng)
