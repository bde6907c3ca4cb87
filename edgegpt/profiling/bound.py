"""A graph's session over arrays that are bound once."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

Run = Callable[[], None]


def bound(
    session: ort.InferenceSession, inputs: Mapping[str, NDArray[Any]], outputs: Mapping[str, NDArray[Any]]
) -> Run:
    """One call of the session; it reads and writes the arrays, of which the same may serve several names."""
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


def rows(session: ort.InferenceSession, tokens: int) -> Run:
    """A call of a graph with one input x (1, T, width) and outputs of one shape, which share a buffer.

    Random floats, or the ids 0 to T - 1 where x has none.
    """
    (x,) = session.get_inputs()
    rng = np.random.default_rng(0)
    ids = x.type == "tensor(int64)"
    given = np.arange(tokens)[None] if ids else rng.standard_normal((1, tokens, x.shape[2]), np.float32)
    made = session.get_outputs()
    result = np.zeros((1, tokens, made[0].shape[2]), np.float32)
    return bound(session, {x.name: given}, {output.name: result for output in made})
