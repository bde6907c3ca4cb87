"""Files of few bits: the same promises as float32, and bytes as counted."""

import json
from functools import cache

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from conftest import random_gpt
from helpers.graphs import random_ids, session_of, small, torch_logits
from hypothesis import given, settings, strategies as st

import edgegpt
from edgegpt.errors import ArtifactError, CheckpointError
from edgegpt.model.checkpoint import save_checkpoint
from edgegpt.quantization import FLOAT, matrices, recipe
from edgegpt.runtime import LIMITS, ParityRow
from edgegpt.runtime.artifact import open_artifact
from edgegpt.runtime.sampling import SamplingParams
from edgegpt_export import export_checkpoint, verify_file
from edgegpt_export.bit_allocation import Quantisation
from edgegpt_export.calibration import cache_scales
from edgegpt_export.graph import build_engine_graph
from edgegpt_export.graph_checks import expected_weight_bytes, misnamed_matrices, weight_bytes
from edgegpt_export.write import write_digest

FORMS = [(precision, kv) for precision in ("fp32", "int8", "int4") for kv in ("fp32", "int8")][1:]


@pytest.fixture(scope="module")
def files(tiny_checkpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("precisions")

    @cache
    def make(precision, kv_cache):
        path = folder / f"{precision}.{kv_cache}.onnx"
        export_checkpoint(tiny_checkpoint, path, precision=precision, kv_cache=kv_cache)
        return path

    return make


@pytest.mark.parametrize("form", FORMS)
def test_a_file_says_its_precision_and_its_recipe(files, form, tiny_config):
    artifact = open_artifact(files(*form))
    assert (artifact.precision, artifact.kv_cache) == form
    if form[0] == "fp32":
        assert artifact.recipe == {}
    else:
        assert artifact.recipe["bits"] == recipe(tiny_config, form[0])


@pytest.mark.parametrize("form", FORMS)
def test_causality_cache_and_batch_hold_at_every_precision(files, form, tiny_checkpoint):
    evidence = verify_file(files(*form), tiny_checkpoint)
    assert evidence.failures == []
    checks = {check.name: check for check in evidence.checks}
    assert checks["causality"].value == checks["weight bytes"].value == 0
    for name in ("chunked = whole", "stepwise = whole", "batch = singles"):
        assert checks[name].value <= checks[name].limit == 0.01


@pytest.mark.parametrize("form", FORMS)
def test_a_generation_in_int8_file_is_deterministic_and_continues_a_fork(files, form):
    model = edgegpt.load(files(*form))
    greedy = SamplingParams(max_new_tokens=12, temperature=0.0)
    assert model.generate("go to", greedy).text == model.generate("go to", greedy).text
    engine = model.engine
    whole, parts = engine.new_cache(), engine.new_cache()
    logits = engine.prefill(whole, [5, 6, 7, 8]).copy()
    engine.prefill(parts, [5, 6])
    again = engine.prefill(parts.fork(), [7, 8])
    assert np.abs(logits - again).max() < 0.02
    assert whole.bytes == engine.cache_bytes


def test_an_int8_cache_is_a_quarter(files):
    wide, narrow = (edgegpt.load(files("int8", kv)).engine for kv in ("fp32", "int8"))
    assert wide.cache_bytes == 4 * narrow.cache_bytes
    assert narrow.new_cache().arrays[0].dtype == np.int8


@given(
    n_layer=st.integers(1, 2),
    n_head=st.integers(1, 3),
    head_dim=st.sampled_from([8, 16, 24]),
    tie_embeddings=st.booleans(),
    precision=st.sampled_from(["int8", "int4"]),
    kv_cache=st.sampled_from(["fp32", "int8"]),
)
@settings(max_examples=25)
def test_every_shape_runs_and_has_the_bytes_of_the_account(n_head, head_dim, precision, kv_cache, **changes):
    config = small(n_head=n_head, n_embd=n_head * head_dim, **changes)
    model = random_gpt(config)
    weights = {name: t.numpy() for name, t in model.state_dict().items()}
    bits = recipe(config, precision)
    scales = cache_scales(model, []) if kv_cache == "int8" else None
    graph = build_engine_graph(config, weights, bits, scales)
    assert weight_bytes(graph) == expected_weight_bytes(config, bits, kv_cache)
    ids = random_ids(config)
    past = {
        value.name: np.zeros((1, n_head, 0, head_dim), np.int8 if scales else np.float32)
        for value in session_of(graph).get_inputs()[2:]
    }
    positions = np.arange(ids.shape[1])[None]
    session = session_of(graph)
    logits = session.run(["logits"], {"input_ids": ids, "position_ids": positions, **past})[0]
    assert np.abs(logits - torch_logits(model, ids)).max() < 0.3
    last = {"logits_start": np.array([-1]), "input_ids": ids, "position_ids": positions}
    assert np.abs(session.run(["logits"], {**last, **past})[0] - logits[:, -1:]).max() < 0.01


def test_a_tied_head_is_stored_once():
    config = small(tie_embeddings=True, n_embd=32, vocab_size=200)
    weights = {name: t.numpy() for name, t in random_gpt(config).state_dict().items()}
    graph = build_engine_graph(config, weights, recipe(config, "int4"))
    of_wte = [tensor.name for tensor in graph.graph.initializer if tensor.dims and tensor.dims[0] == 200]
    assert of_wte == ["wte.weight.packed", "wte.weight.scales"]
    assert [len(shape) for shape in matrices(config).values()] == [2] * (2 + 4 * config.n_layer)


def relabelled(source, target, **entries):
    """A file that says something else of itself, with a write_digest that fits."""
    model = onnx.load(str(source))
    del model.metadata_props[-1]  # the digest of what comes before it
    for entry in model.metadata_props:
        entry.value = entries.get(entry.key.removeprefix("edgegpt."), entry.value)
    onnx.save(model, str(target))
    write_digest(target)
    return target


def with_recipe(source, target, bits):
    return relabelled(source, target, recipe=json.dumps({"bits": bits}))


@pytest.mark.parametrize("bits", [{"wte.weight": 8}, [4], "all", {"wte.weight": [8]}])
def test_a_recipe_that_does_not_fit_is_refused(files, tiny_checkpoint, tmp_path, bits):
    path = with_recipe(files("int8", "fp32"), tmp_path / "x.onnx", bits)
    with pytest.raises(ArtifactError, match=r"the recipe in .*x.onnx does not fit its config"):
        verify_file(path, tiny_checkpoint)


def test_a_recipe_of_other_bits_than_the_file_is_noticed(files, tiny_checkpoint, tiny_config, tmp_path):
    path = with_recipe(files("int8", "fp32"), tmp_path / "x.onnx", recipe(tiny_config, "int4"))
    assert "weight bytes" in verify_file(path, tiny_checkpoint).failures[0]


def test_a_file_that_calls_itself_by_another_precision_is_noticed(files, tiny_checkpoint, tmp_path):
    for precision, said in [("int8", "int4"), ("int4", "int8"), ("fp32", "int4"), ("int8", "fp32")]:
        path = relabelled(files(precision, "fp32"), tmp_path / "x.onnx", precision=said)
        assert "precision" in [
            failure.split(":")[0] for failure in verify_file(path, tiny_checkpoint).failures
        ]
    path = relabelled(files("int8", "int8"), tmp_path / "x.onnx", precision="int4")
    (failure,) = verify_file(path, tiny_checkpoint).failures
    assert failure == (
        "precision: number of matrices that are not of the bits they are said to be of (blocks.0.attn.qkv."
        "weight: 8 in the graph, 8 in the recipe, 4 in int4; and 7 more): 8, the limit is 0"
    )


def test_a_mix_that_swaps_two_matrices_of_one_size_is_noticed():
    config = small()
    weights = {name: t.numpy() for name, t in random_gpt(config).state_dict().items()}
    a, b = "blocks.0.attn.proj.weight", "blocks.1.attn.proj.weight"
    mix = {**recipe(config, "int8"), a: 4, b: FLOAT}
    graph = build_engine_graph(config, weights, mix)
    assert misnamed_matrices(graph, config, Quantisation("auto", mix)) == []
    assert misnamed_matrices(graph, config, Quantisation("auto", {**mix, a: FLOAT, b: 4})) == [
        f"{a}: 4 in the graph, 32 in the recipe, 32 in auto",
        f"{b}: 32 in the graph, 4 in the recipe, 4 in auto",
    ]


@pytest.mark.parametrize(
    ("length", "agreed", "fails"), [(7, 6, False), (7, 5, True), (1, 0, False), (100, 94, True)]
)
def test_what_may_differ_is_rounded_up_to_whole_positions(length, agreed, fails):
    row = ParityRow(length, max_abs=9.0, kl=0.0, top1=agreed / length)
    assert bool(row.failures(LIMITS["int8"])) == fails


def test_a_row_of_nan_fails():
    assert len(ParityRow(1, float("nan"), float("nan"), float("nan")).failures(LIMITS["fp32"])) == 3


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_the_optimiser_does_not_bring_the_slow_norm_back(files, precision, tmp_path):
    path = files(precision, "int8")
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.log_severity_level = 4
    ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    operators = {node.op_type for node in onnx.load(str(tmp_path / "optimised.onnx")).graph.node}
    assert "LayerNormalization" in operators
    assert "SkipLayerNormalization" not in operators


@pytest.mark.parametrize(
    "request_", [{"precision": "int8", "kv_cache": "int8"}, {"precision": "auto", "max_kl": 0.01}]
)
def test_a_checkpoint_that_overflows_is_refused_in_one_sentence(
    request_, tiny_config, tiny_tokenizer, tmp_path
):
    model = random_gpt(tiny_config)
    for name, weight in model.state_dict().items():
        if "mlp" in name:
            weight.mul_(1e30)
    save_checkpoint(tmp_path / "huge", model, tiny_tokenizer)
    with pytest.raises(CheckpointError, match=r"logits are NaN or infinite in PyTorch at position 0"):
        export_checkpoint(tmp_path / "huge", tmp_path / "huge.onnx", **request_)
    assert not (tmp_path / "huge.onnx").exists()
