"""Define the interface of a graph builder, and bind the session of a graph to arrays.

`edgegpt_export.synthetic` is such a builder; it needs onnx, which this room does not load.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edgegpt.config import ModelConfig

# Writes an engine file with random weights: path, config, precision.
WriteFile = Callable[[Path, ModelConfig, str], None]


class Graphs(Protocol):
    """Builder of serialised models of one kind of node; inputs and outputs as in edgegpt_export.synthetic."""

    def products(self, n: int, outputs: int, inputs: int, bits: int) -> bytes:
        """Return n matrix products, each with its own matrix."""

    def write_products(self, path: Path, n: int, outputs: int, inputs: int, bits: int) -> None:
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


Run = Callable[[], None]


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
