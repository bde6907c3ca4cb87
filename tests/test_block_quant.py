"""Quantised weights: layout, error, and that the runtime multiplies with the dequantised matrix."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings, strategies as st
from onnx import TensorProto, helper

from edgegpt.quantization import block_size, is_padded, matrix_bytes
from edgegpt_export.block_quant import dequantise, quantise
from edgegpt_export.graph import Graph, embedding, linear, packer


def matrix(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)


@pytest.mark.parametrize(
    ("columns", "four", "eight"),
    [
        (768, 128, 256),
        (512, 128, 256),
        (384, 128, 128),
        (192, 64, 64),
        (128, 128, 128),
        (48, 16, 16),
        (20, 32, 32),
    ],
)
def test_a_block_is_the_largest_that_divides_the_row(columns: int, four: int, eight: int) -> None:
    assert (block_size(columns, 4), block_size(columns, 8)) == (four, eight)
    assert is_padded(columns) == (columns == 20)


@given(
    rows=st.integers(1, 5), columns=st.integers(1, 300), bits=st.sampled_from([4, 8]), seed=st.integers(0, 9)
)
@settings(max_examples=60)
def test_bytes_are_as_counted_and_no_weight_is_off_by_more_than_its_step(
    rows: int, columns: int, bits: Any, seed: int
) -> None:
    weight = matrix(rows, columns, seed)
    q = quantise(weight, bits)
    assert q.packed.nbytes + q.scales.nbytes == matrix_bytes(rows, columns, bits)
    block = block_size(columns, bits)
    steps = np.abs(np.repeat(q.scales, block, axis=1))[:, :columns]
    # Half a step, and where 4 bits clip the largest weights a good two steps.
    assert (np.abs(dequantise(q, columns) - weight) <= steps * (0.51 if bits == 8 else 2.5)).all()


def test_four_bits_are_better_than_the_plain_rule() -> None:
    weight = matrix(64, 256)
    blocks = weight.reshape(64, 2, 128)
    scales = np.abs(blocks).max(-1, keepdims=True) / 7
    plain = np.clip(np.rint(blocks / scales), -8, 7) * scales
    error = np.square(dequantise(quantise(weight, 4), 256) - weight).mean()
    assert error < 0.85 * np.square(plain - blocks).mean()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("size", [0, 1e-45, 1e-41, 1e-38, 1e-36])
def test_a_block_of_zeros_or_decayed_weights_is_packed_without_a_warning(bits: Any, size: float) -> None:
    weight = matrix(2, 64)
    weight[1] = size
    weight[1, ::3] = 0
    assert np.abs(dequantise(quantise(weight, bits), 64)[1]).max() <= 1.2 * size


def test_a_matrix_in_parts_is_the_matrix_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = matrix(50, 96)
    whole = quantise(weight, 4)
    monkeypatch.setattr("edgegpt_export.block_quant._ROWS", 300)
    parts = quantise(weight, 4)
    assert np.array_equal(whole.packed, parts.packed)
    assert np.array_equal(whole.scales, parts.scales)


def run(nodes: Callable[[Graph, str, str], str], name: str, weight: Any, bits: int, feed: Any) -> Any:
    """Return what the runtime computes from an input and a quantised weight."""
    graph = Graph({name: weight}, {name: bits}, packer({name: weight}))
    output = nodes(graph, name, "x")
    x = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(feed.dtype), feed.shape)
    y = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
    model = graph.to_model("g", [x], [y])
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": feed})[0]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("columns", [20, 48, 64, 192, 256])
def test_the_runtime_multiplies_with_the_dequantised_matrix(bits: int, columns: int) -> None:
    weight = matrix(24, columns)
    # Ones in one place select one column: what the activations' own 8 bits hold exactly.
    x = np.eye(columns, dtype=np.float32)[None]
    y = run(lambda graph, w, x: linear(graph, "/product", w, x), "w", weight, bits, x)
    assert np.abs(y[0].T - dequantise(quantise(weight, bits), columns)).max() < 1e-5


@pytest.mark.parametrize("bits", [4, 8])
def test_the_runtime_looks_up_the_dequantised_rows(bits: int) -> None:
    weight = matrix(30, 64)
    ids = np.array([[0, 29, 7]])
    rows = run(lambda graph, w, x: embedding(graph, "/wpe", w, x), "wpe.weight", weight, bits, ids)
    assert np.array_equal(rows[0], dequantise(quantise(weight, bits), 64)[ids[0]])
