"""The ONNX graphs of both targets compute what PyTorch computes, at every length and by every way."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from helpers.graphs import TARGETS, model_and_graph, optimised, random_ids, session_of, small, torch_logits
from hypothesis import given, settings, strategies as st

from edgegpt.config import ModelConfig
from edgegpt.quantization import recipe
from edgegpt_export import build_engine_graph
from edgegpt_export.graph_checks import expected_weight_bytes, unwanted_operators, weight_bytes
from edgegpt_export.runner import GrowingCache, SharedCache

ALL_FORMS = [
    {"tie_embeddings": tied, "qkv_bias": bias, "gelu": gelu}
    for tied in (False, True)
    for bias in (False, True)
    for gelu in ("tanh", "erf")
]
# Tracing takes seconds a graph, so each value of each option with each value of the others, once; and
# a head_dim that the engine target refuses.
PORTABLE_FORMS = [ALL_FORMS[0], ALL_FORMS[3], ALL_FORMS[5], {**ALL_FORMS[6], "n_embd": 12}]
FORMS = [("engine", form) for form in ALL_FORMS] + [
    pytest.param("portable", form, marks=pytest.mark.slow) for form in PORTABLE_FORMS
]


def assert_equal(logits: Any, expected: Any) -> None:
    np.testing.assert_allclose(logits, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("target", "form"), FORMS)
def test_logits_equal_pytorch_at_every_length(target: str, form: Any) -> None:
    model, graph = model_and_graph(target, small(**form))
    session = session_of(graph)
    for length in range(1, model.config.block_size + 1):
        ids = random_ids(model.config, batch=2, length=length, seed=length)
        logits = GrowingCache(session, model.config, batch=2).feed(ids)
        assert_equal(logits, torch_logits(model, ids))


@pytest.mark.parametrize(
    ("target", "capacity"), [*((target, None) for target in TARGETS), *(("engine", n) for n in (10, 11, 64))]
)
@pytest.mark.parametrize("first", range(1, 11))
def test_a_growing_cache_and_a_shared_buffer_equal_recompute_wherever_the_prompt_is_cut(
    target: str, capacity: int | None, first: int
) -> None:
    model, graph = model_and_graph(target)
    session, config = session_of(graph), model.config
    by_token = range(first, config.block_size)
    for batch, ends in ((1, [first]), (1, by_token), (3, by_token)):
        ids = random_ids(config, batch)
        cache: GrowingCache | SharedCache = GrowingCache(session, config, batch)
        if capacity:
            cache = SharedCache(session, config, batch, capacity)
        parts = [cache.feed(part) for part in np.split(ids, ends, axis=1) if part.size]
        assert_equal(np.concatenate(parts, 1), torch_logits(model, ids))


def run_whole(session: ort.InferenceSession, config: ModelConfig, ids: Any) -> dict[str, Any]:
    """Return all outputs by name, of a whole prompt without a past."""
    batch, length = ids.shape
    inputs = {"input_ids": ids, "position_ids": np.tile(np.arange(length), (batch, 1))}
    for value in session.get_inputs():
        if value.name.startswith("past"):
            inputs[value.name] = np.zeros((batch, config.n_head, 0, config.head_dim), np.float32)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


@pytest.mark.parametrize("target", TARGETS)
def test_present_holds_the_keys_and_values_that_pytorch_caches(target: str) -> None:
    model, graph = model_and_graph(target)
    ids = random_ids(model.config)
    outputs = run_whole(session_of(graph), model.config, ids)
    with torch.no_grad():
        positions = torch.arange(ids.shape[1])[None]
        _, cache = model.forward_cached(torch.from_numpy(ids), positions, model.empty_cache(1))
    for i, (key, value) in enumerate(cache):
        assert_equal(outputs[f"present.{i}.key"], key.numpy())
        assert_equal(outputs[f"present.{i}.value"], value.numpy())


def test_the_engine_target_decodes_a_batch_whose_rows_have_different_lengths() -> None:
    model, graph = model_and_graph("engine")
    session, lengths = session_of(graph), [2, 7, 4]
    ids = random_ids(model.config, batch=3)
    names = [value.name for value in session.get_inputs() if value.name.startswith("past")]
    inputs = {name: np.full((3, 2, 10, 8), 1e30, np.float32) for name in names}
    for row, length in enumerate(lengths):
        outputs = run_whole(session, model.config, ids[row : row + 1, :length])
        for name, buffer in inputs.items():
            buffer[row, :, :length] = outputs[name.replace("past_key_values", "present")][0]
    inputs["position_ids"] = np.array(lengths)[:, None]
    inputs["input_ids"] = ids[np.arange(3), lengths][:, None]
    logits = session.run(["logits"], inputs)[0]
    for row, length in enumerate(lengths):
        assert_equal(logits[row, 0], torch_logits(model, ids[row : row + 1, : length + 1])[0, -1])


@pytest.mark.parametrize("target", TARGETS)
def test_no_dropout_or_random_operator_is_in_the_graph(target: str) -> None:
    model, graph = model_and_graph(target)
    assert model.config.dropout == 0.1
    assert unwanted_operators(graph, target) == []
    assert not [node for node in graph.graph.node if "Dropout" in node.op_type or "Random" in node.op_type]


def test_the_portable_target_holds_standard_operators_only() -> None:
    _, graph = model_and_graph("portable")
    assert {node.domain for node in graph.graph.node} == {""}
    assert [opset.domain for opset in graph.opset_import] == [""]
    assert not graph.functions


def test_unwanted_operators_are_found_in_subgraphs_too() -> None:
    dropout = onnx.helper.make_node("Dropout", ["x"], ["y"])
    branch = onnx.helper.make_graph([dropout], "branch", [], [])
    node = onnx.helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    graph = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], []))
    assert unwanted_operators(graph, "portable") == ["Dropout"]


def has_the_bytes_of_the_account(graph: onnx.ModelProto, config: ModelConfig) -> bool:
    return weight_bytes(graph) == expected_weight_bytes(config, recipe(config, "fp32"))


def stores_each_parameter_once(graph: onnx.ModelProto, config: ModelConfig) -> bool:
    floats = [t for t in graph.graph.initializer if t.data_type == onnx.TensorProto.FLOAT]
    sizes = {tensor.name: tuple(tensor.dims) for tensor in floats}
    return sizes == config.parameter_shapes() and has_the_bytes_of_the_account(graph, config)


@given(
    vocab_size=st.integers(1, 70),
    block_size=st.integers(1, 40),
    n_layer=st.integers(1, 3),
    n_head=st.integers(1, 3),
    tie_embeddings=st.booleans(),
    qkv_bias=st.booleans(),
    gelu=st.sampled_from(["tanh", "erf"]),
)
@settings(max_examples=25)
def test_the_engine_target_stores_every_parameter_once(n_head: int, **changes: Any) -> None:
    config = ModelConfig(n_head=n_head, n_embd=8 * n_head, **changes)
    weights = {name: np.zeros(shape, np.float32) for name, shape in config.parameter_shapes().items()}
    assert stores_each_parameter_once(build_engine_graph(config, weights), config)


@pytest.mark.slow
@pytest.mark.parametrize("form", PORTABLE_FORMS)
def test_the_portable_target_stores_every_parameter_once(form: Any) -> None:
    model, graph = model_and_graph("portable", small(**form))
    assert stores_each_parameter_once(graph, model.config)


@pytest.mark.parametrize("tied", [False, True])
def test_the_optimiser_makes_no_second_copy_of_a_matrix(tied: bool, tmp_path: Path) -> None:
    model, graph = model_and_graph("engine", small(tie_embeddings=tied))
    found = optimised(graph.SerializeToString(), tmp_path)
    assert has_the_bytes_of_the_account(found, model.config)
    assert len(found.graph.node) == len(graph.graph.node)
