"""Build small graphs, bind them to arrays, time their calls, and fit sums of terms to the measured times.

The graphs come from a builder such as `edgegpt_export.synthetic`; it needs onnx, which this room does not
load.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edgegpt.config import ModelConfig
from edgegpt.measure import BURST, beyond_cache_bytes

Run = Callable[[], None]
Key = TypeVar("Key")

_MIN_ROUNDS: Final = 4
_CALLS: Final = 3  # timed calls in a row, after one that loads its weights into the caches
_MIN_BURSTS: Final = 3
_BURST_CALLS: Final = 3  # at least, where a call is slow
_BURST_SECONDS: Final = 0.2  # longest burst of a slow call
_US: Final = 1e6


# Writes an engine file with random weights: path, config, precision.
WriteFile = Callable[[Path, ModelConfig, str], None]


class Graphs(Protocol):
    """Builder of serialised models of one kind of node; inputs and outputs as in edgegpt_export.synthetic."""

    def matmuls(self, n: int, outputs: int, inputs: int, bits: int) -> bytes:
        """Return n matrix products, each with its own matrix."""

    def write_matmuls(self, path: Path, n: int, outputs: int, inputs: int, bits: int) -> None:
        """Write the same to a file, with its weights where an engine file has them."""

    def attention(self, n_layer: int, n_head: int, head_dim: int) -> bytes:
        """Return n_layer attention nodes with a cache each."""

    def norms(self, n: int, width: int) -> bytes:
        """Return a chain of n residual additions with LayerNormalization."""

    def gelus(self, n: int, width: int) -> bytes:
        """Return a chain of n GELUs."""

    def additions(self, n: int, width: int) -> bytes:
        """Return a chain of n additions."""

    def lookups(self, n: int, rows: int, width: int, bits: int) -> bytes:
        """Return n lookups with a table each."""


def bind(
    session: ort.InferenceSession, inputs: Mapping[str, NDArray[Any]], outputs: Mapping[str, NDArray[Any]]
) -> Run:
    """Return a call of the session that reads and writes these arrays; names may share an array."""
    values = {id(a): ort.OrtValue.ortvalue_from_numpy(a) for a in (*inputs.values(), *outputs.values())}
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_ortvalue_input(name, values[id(array)])
    for name, array in outputs.items():
        binding.bind_ortvalue_output(name, values[id(array)])
    kept = (session, dict(inputs), dict(outputs))  # a binding does not keep what it points to

    def run() -> None:
        kept[0].run_with_iobinding(binding)

    return run


def call_rows(session: ort.InferenceSession, tokens: int) -> Run:
    """Return a call of a graph with one input x (1, T, width) and outputs of one shape, which share a buffer.

    The input is random, or the ids 0 to T - 1 where x takes ids.
    """
    (x,) = session.get_inputs()
    rng = np.random.default_rng(0)
    ids = x.type == "tensor(int64)"
    given = np.arange(tokens)[None] if ids else rng.standard_normal((1, tokens, x.shape[2]), np.float32)
    made = session.get_outputs()
    result = np.zeros((1, tokens, made[0].shape[2]), np.float32)
    return bind(session, {x.name: given}, {output.name: result for output in made})


def fastest_us(runs: Mapping[Key, Callable[[], object]], seconds: float) -> dict[Key, float]:
    """Return the microseconds of one call of each, the fastest of all rounds: noise only adds time.

    All are called in every round, so that a busy moment affects all of them equally.

    Args:
        runs: functions to call, by any key.
        seconds: measuring time, at least _MIN_ROUNDS rounds.
    """
    fastest = dict.fromkeys(runs, math.inf)
    rounds, end = 0, perf_counter() + seconds
    while rounds < _MIN_ROUNDS or perf_counter() < end:
        for key, run in runs.items():
            run()
            fastest[key] = min(fastest[key], *(_timed(run) for _ in range(_CALLS)))
        rounds += 1
    return fastest


def sweeper() -> Callable[[], object]:
    """Return a function that evicts all caches by reading a buffer larger than them."""
    return np.ones(beyond_cache_bytes() // 8, np.uint64).max


def burst_us(run: Callable[[], object], sweep: Callable[[], object], seconds: float) -> float:
    """Return the microseconds of one call, the mean of the medians of bursts with swept caches.

    A robot's answer is such a burst, with other work before it. A shared cache takes up to a dozen calls to
    keep what they read, so endless calls may be twice as fast as those of an answer. The mean, because the
    fastest burst depends on what other processes leave of a cache, and a median of bursts would jump where
    half of them were lucky.

    Args:
        run: the call.
        sweep: evicts the caches before each burst; a `sweeper`.
        seconds: measuring time, at least _MIN_BURSTS bursts.
    """
    medians: list[float] = []
    end = perf_counter() + seconds
    while len(medians) < _MIN_BURSTS or perf_counter() < end:
        sweep()
        medians.append(statistics.median(_burst(run)))
    return statistics.fmean(medians)


def fit(terms: Sequence[Sequence[float]], measured: Sequence[float]) -> tuple[float, ...]:
    """Return coefficients c >= 0 that bring the sums of c_j * terms[i][j] closest to measured[i].

    Non-negative least squares (Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23), solved
    for every subset of the few terms; the best solution without a negative coefficient is returned. Each
    row is divided by its measured value, so that a small model counts as much as a large one; a value that
    is not above 0, because of noise, is left out.
    """
    a, y = np.asarray(terms, np.float64), np.asarray(measured, np.float64)
    a, y = a[y > 0], y[y > 0]
    n = a.shape[1]
    best, least = np.zeros(n), float(len(y))
    scaled = a / y[:, None]
    for size in range(1, n + 1):
        for chosen in map(list, combinations(range(n), size)):
            solution, *_ = np.linalg.lstsq(scaled[:, chosen], np.ones(len(y)), rcond=None)
            error = float(np.square(scaled[:, chosen] @ solution - 1).sum())
            if (solution >= 0).all() and error < least:
                best, least = np.zeros(n), error
                best[chosen] = solution
    return tuple(float(c) for c in best)


def _burst(run: Callable[[], object]) -> Iterator[float]:
    end = perf_counter() + _BURST_SECONDS
    for i in range(BURST):
        if i >= _BURST_CALLS and perf_counter() > end:
            break
        yield _timed(run)


def _timed(run: Callable[[], object]) -> float:
    start = perf_counter()
    run()
    return _US * (perf_counter() - start)
