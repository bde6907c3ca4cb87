"""The ONNX graphs of both targets compute what PyTorch computes, at every length and by every way."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from conftest import random_gpt
from helpers.graphs import TARGETS, engine_graph, model_and_graph, random_ids, session_of, small, torch_logits
from hypothesis import given, settings, strategies as st

from edgegpt.config import ModelConfig
from edgegpt.quantization import recipe
from edgegpt_export import build_engine_graph
from edgegpt_export.graph_checks import expected_weight_bytes, unwanted_operators, weight_bytes
from edgegpt_export.runner import GrowingCache, SharedCache

ATOL = 1e-5
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


@pytest.mark.parametrize(("target", "form"), FORMS)
def test_logits_equal_pytorch_at_every_length(target: str, form: Any) -> None:
    model, graph = model_and_graph(target, small(**form))
    session = session_of(graph)
    for length in range(1, model.config.block_size + 1):
        ids = random_ids(model.config, batch=2, length=length, seed=length)
        logits = GrowingCache(session, model.config, batch=2).feed(ids)
        np.testing.assert_allclose(logits, torch_logits(model, ids), atol=ATOL, rtol=0)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("first", range(1, 10))
def test_cache_equals_recompute_wherever_the_prompt_is_cut(target: str, first: int) -> None:
    model, graph = model_and_graph(target)
    ids = random_ids(model.config)
    cache = GrowingCache(session_of(graph), model.config, batch=1)
    parts = [cache.feed(ids[:, :first]), cache.feed(ids[:, first:])]
    np.testing.assert_allclose(np.concatenate(parts, 1), torch_logits(model, ids), atol=ATOL, rtol=0)


@pytest.mark.parametrize("target", TARGETS)
def test_cache_equals_recompute_token_by_token_in_a_batch(target: str) -> None:
    model, graph = model_and_graph(target)
    ids = random_ids(model.config, batch=3)
    cache = GrowingCache(session_of(graph), model.config, batch=3)
    steps = [cache.feed(ids[:, i : i + 1]) for i in range(model.config.block_size)]
    np.testing.assert_allclose(np.concatenate(steps, 1), torch_logits(model, ids), atol=ATOL, rtol=0)


@pytest.mark.parametrize("target", TARGETS)
def test_present_holds_the_keys_and_values_that_pytorch_caches(target: str) -> None:
    model, graph = model_and_graph(target)
    ids = random_ids(model.config)
    outputs = _run(session_of(graph), model.config, ids)
    with torch.no_grad():
        _, cache = model.forward_cached(
            torch.from_numpy(ids), torch.arange(ids.shape[1])[None], model.empty_cache(1)
        )
    for i, (key, value) in enumerate(cache):
        np.testing.assert_allclose(outputs[f"present.{i}.key"], key.numpy(), atol=ATOL, rtol=0)
        np.testing.assert_allclose(outputs[f"present.{i}.value"], value.numpy(), atol=ATOL, rtol=0)


@pytest.mark.parametrize("capacity", [10, 11, 64])
@pytest.mark.parametrize("first", [1, 4, 10])
def test_the_engine_target_works_in_one_shared_buffer_of_any_capacity(capacity: int, first: int) -> None:
    model, graph = model_and_graph("engine")
    ids = random_ids(model.config)
    cache = SharedCache(session_of(graph), model.config, batch=1, capacity=capacity)
    parts = [cache.feed(ids[:, :first])]
    parts += [cache.feed(ids[:, i : i + 1]) for i in range(first, model.config.block_size)]
    np.testing.assert_allclose(np.concatenate(parts, 1), torch_logits(model, ids), atol=ATOL, rtol=0)


def test_the_engine_target_decodes_a_batch_whose_rows_have_different_lengths() -> None:
    model, graph = model_and_graph("engine")
    session, lengths, capacity = session_of(graph), [2, 7, 4], 10
    ids = random_ids(model.config, batch=3)
    past = {}
    for i in range(model.config.n_layer):
        for kind in ("key", "value"):
            past[f"{i}.{kind}"] = np.full((3, 2, capacity, 8), 1e30, np.float32)
    for row, length in enumerate(lengths):
        outputs = _run(session, model.config, ids[row : row + 1, :length])
        for name, buffer in past.items():
            buffer[row, :, :length] = outputs[f"present.{name}"][0]
    inputs = {f"past_key_values.{name}": buffer for name, buffer in past.items()}
    inputs["position_ids"] = np.array(lengths)[:, None]
    inputs["input_ids"] = ids[np.arange(3), lengths][:, None]
    logits = session.run(["logits"], inputs)[0]
    for row, length in enumerate(lengths):
        expected = torch_logits(model, ids[row : row + 1, : length + 1])[0, -1]
        np.testing.assert_allclose(logits[row, 0], expected, atol=ATOL, rtol=0)


def test_a_context_of_one_token_works() -> None:
    model = random_gpt(small(block_size=1, n_layer=1))
    ids = random_ids(model.config)
    logits = GrowingCache(session_of(engine_graph(model)), model.config, batch=1).feed(ids)
    np.testing.assert_allclose(logits, torch_logits(model, ids), atol=ATOL, rtol=0)


@pytest.mark.parametrize("target", TARGETS)
def test_no_dropout_or_random_operator_is_in_the_graph(target: str) -> None:
    model, graph = model_and_graph(target)
    assert model.config.dropout == 0.1
    assert unwanted_operators(graph, target) == []
    operators = {node.op_type for node in graph.graph.node}
    assert not [name for name in operators if "Dropout" in name or "Random" in name]


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
def test_the_bytes_of_the_initialisers_are_the_account_s(n_head: int, **changes: Any) -> None:
    config = ModelConfig(n_head=n_head, n_embd=8 * n_head, **changes)
    weights = {name: np.zeros(shape, np.float32) for name, shape in config.parameter_shapes().items()}
    graph = build_engine_graph(config, weights)
    assert weight_bytes(graph) == expected_weight_bytes(config, recipe(config, "fp32"))
    sizes = {tensor.name: tuple(tensor.dims) for tensor in graph.graph.initializer if is_float(tensor)}
    assert sizes == config.parameter_shapes()


@pytest.mark.parametrize("tied", [False, True])
def test_the_optimiser_makes_no_second_copy_of_a_matrix(tied: bool, tmp_path: Path) -> None:
    model, graph = model_and_graph("engine", small(tie_embeddings=tied))
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.log_severity_level = 3
    ort.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])
    optimised = onnx.load(str(tmp_path / "optimised.onnx"))
    assert weight_bytes(optimised) == expected_weight_bytes(model.config, recipe(model.config, "fp32"))
    assert len(optimised.graph.node) == len(graph.graph.node)


@pytest.mark.slow
@pytest.mark.parametrize("form", PORTABLE_FORMS)
def test_the_portable_target_stores_every_parameter_once_as_the_checkpoint_has_it(form: Any) -> None:
    model, graph = model_and_graph("portable", small(**form))
    assert weight_bytes(graph) == expected_weight_bytes(model.config, recipe(model.config, "fp32"))
    sizes = {tensor.name: tuple(tensor.dims) for tensor in graph.graph.initializer if is_float(tensor)}
    assert sizes == model.config.parameter_shapes()


def is_float(tensor: Any) -> bool:
    return tensor.data_type == onnx.TensorProto.FLOAT


def _run(session: Any, config: Any, ids: Any) -> Any:
    """All outputs by name, of a whole prompt without a past."""
    batch, length = ids.shape
    inputs = {"input_ids": ids, "position_ids": np.tile(np.arange(length), (batch, 1))}
    for i in range(config.n_layer):
        for kind in ("key", "value"):
            inputs[f"past_key_values.{i}.{kind}"] = np.zeros(
                (batch, config.n_head, 0, config.head_dim), np.float32
            )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))
