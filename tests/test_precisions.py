"""Quantised files keep the promises of float32 files, and have the bytes that are counted."""

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from conftest import Refused, random_gpt
from helpers.graphs import failed, optimised, random_ids, session_of, small, torch_logits
from hypothesis import given, settings, strategies as st

import edgegpt
from edgegpt.config import ModelConfig
from edgegpt.errors import ArtifactError, CheckpointError
from edgegpt.model import save_checkpoint
from edgegpt.quantization import FLOAT, matrices, recipe, weight_bytes_per_token
from edgegpt.runtime import Evidence, SamplingParams, open_artifact
from edgegpt.runtime.onnx_file import read_file
from edgegpt.tokenizer import Tokenizer
from edgegpt_export import export_checkpoint, verify_file
from edgegpt_export.bit_allocation import Quantisation
from edgegpt_export.block_quant import dequantise, quantise
from edgegpt_export.calibration import cache_scales
from edgegpt_export.graph import build_engine_graph
from edgegpt_export.graph_checks import expected_weight_bytes, misnamed_matrices, weight_bytes
from edgegpt_export.write import write_digest

FORMS = [("fp32", "int8"), ("int8", "fp32"), ("int8", "int8"), ("int4", "fp32"), ("int4", "int8")]
Files = Callable[[str, str], Path]  # the tiny checkpoint at a precision, with a type of the cache


@pytest.fixture(scope="module")
def files(tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("precisions")

    @cache
    def make(precision: str, kv_cache: str) -> Path:
        path = folder / f"{precision}.{kv_cache}.onnx"
        return export_checkpoint(tiny_checkpoint, path, precision=precision, kv_cache=kv_cache).path

    return make


@pytest.mark.parametrize(("precision", "kv_cache"), FORMS)
def test_a_file_says_its_precision_and_keeps_the_promises_of_float32(
    files: Files, precision: str, kv_cache: str, tiny_config: ModelConfig, tiny_checkpoint: Path
) -> None:
    artifact = open_artifact(files(precision, kv_cache))
    assert (artifact.precision, artifact.kv_cache) == (precision, kv_cache)
    bits = None if precision == "fp32" else recipe(tiny_config, precision)
    assert artifact.recipe.get("bits") == bits
    facts = read_file(artifact.path)
    assert (facts.target, facts.precision, facts.context) == ("engine", precision, tiny_config.block_size)
    assert facts.bytes == artifact.path.stat().st_size
    assert facts.weight_bytes_per_token == weight_bytes_per_token(tiny_config, recipe(tiny_config, precision))
    assert facts.weight_bytes_per_token < 4 * facts.parameters
    evidence = verify_file(artifact.path, tiny_checkpoint)
    assert evidence.failures == []
    checks = {check.name: check for check in evidence.checks}
    assert checks["causality"].value == checks["weight bytes"].value == 0
    for name in ("chunked = whole", "stepwise = whole", "batch = singles"):
        assert checks[name].value <= checks[name].limit == 0.01


@pytest.mark.parametrize("form", FORMS)
def test_a_generation_of_a_quantised_file_is_deterministic_and_continues_a_fork(
    files: Files, form: Any
) -> None:
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


def test_an_int8_cache_is_a_quarter(files: Files) -> None:
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
def test_every_shape_computes_with_the_rounded_weights_and_has_the_bytes_of_the_account(
    n_head: int, head_dim: int, precision: str, kv_cache: str, **changes: Any
) -> None:
    config = small(n_head=n_head, n_embd=n_head * head_dim, **changes)
    model = random_gpt(config)
    weights = {name: t.numpy().copy() for name, t in model.state_dict().items()}
    bits = recipe(config, precision)
    scales = cache_scales(model, []) if kv_cache == "int8" else None
    graph = build_engine_graph(config, weights, bits, scales)
    assert weight_bytes(graph) == expected_weight_bytes(config, bits, kv_cache)
    ids = random_ids(config)
    session = session_of(graph)
    past = {
        value.name: np.zeros((1, n_head, 0, head_dim), np.int8 if scales else np.float32)
        for value in session.get_inputs()
        if value.name.startswith("past")
    }
    inputs = {"input_ids": ids, "position_ids": np.arange(ids.shape[1])[None], **past}
    (logits,) = session.run(["logits"], inputs)
    (last,) = session.run(["logits"], {**inputs, "logits_start": np.array([-1])})
    assert np.abs(last - logits[:, -1:]).max() < 0.01

    exact = torch_logits(model, ids)
    model.load_state_dict({name: rounded(weights[name], bits.get(name, FLOAT)) for name in weights})
    # Only activations and an int8 cache are rounded differently: at most 0.08 in any of the 144 shapes.
    assert np.abs(logits - torch_logits(model, ids)).max() < 0.1
    # Rounding to 4 bits moves logits by an RMS of up to 0.18 of their spread, which grows with the width.
    if precision == "int8":
        assert np.abs(logits - exact).max() < 0.1
    else:
        assert np.square(logits - exact).mean() ** 0.5 < 0.2 * exact.std()


def rounded(weight: np.ndarray, bits: int) -> torch.Tensor:
    if bits != FLOAT:
        weight = dequantise(quantise(weight, bits), weight.shape[1])
    return torch.from_numpy(weight)


def test_a_tied_head_is_stored_once() -> None:
    config = small(tie_embeddings=True, n_embd=32, vocab_size=200)
    weights = {name: t.numpy() for name, t in random_gpt(config).state_dict().items()}
    graph = build_engine_graph(config, weights, recipe(config, "int4"))
    of_wte = [tensor.name for tensor in graph.graph.initializer if tensor.dims and tensor.dims[0] == 200]
    assert of_wte == ["wte.weight.packed", "wte.weight.scales"]
    assert [len(shape) for shape in matrices(config).values()] == [2] * (2 + 4 * config.n_layer)


def relabelled(source: Path, target: Path, **entries: str) -> Path:
    """Write a copy with other metadata, and the sha256 of the copy."""
    model = onnx.load(str(source))
    del model.metadata_props[-1]  # the digest of what comes before it
    for entry in model.metadata_props:
        entry.value = entries.get(entry.key.removeprefix("edgegpt."), entry.value)
    onnx.save(model, str(target))
    write_digest(target)
    return target


@pytest.mark.parametrize("bits", [{"wte.weight": 8}, [4], "all", {"wte.weight": [8]}])
def test_a_recipe_that_does_not_fit_is_refused(
    files: Files, tiny_checkpoint: Path, tmp_path: Path, refused: Refused, bits: Any
) -> None:
    stored = json.dumps({"bits": bits})
    path = relabelled(files("int8", "fp32"), tmp_path / "x.onnx", recipe=stored)
    for read in (read_file, partial(verify_file, checkpoint=tiny_checkpoint)):
        with refused(ArtifactError, path):
            read(path)


def test_a_recipe_or_a_precision_of_other_bits_than_the_file_is_noticed(
    files: Files, tiny_checkpoint: Path, tiny_config: ModelConfig, tmp_path: Path
) -> None:
    def found(form: tuple[str, str], **entries: str) -> Evidence:
        return verify_file(relabelled(files(*form), tmp_path / "x.onnx", **entries), tiny_checkpoint)

    stored = json.dumps({"bits": recipe(tiny_config, "int4")})
    assert failed(found(("int8", "fp32"), recipe=stored))[0] == "weight bytes"
    for precision, said in [("int8", "int4"), ("int4", "int8"), ("fp32", "int4"), ("int8", "fp32")]:
        assert "precision" in failed(found((precision, "fp32"), precision=said))
    evidence = found(("int8", "int8"), precision="int4")
    assert failed(evidence) == ["precision"]
    assert "blocks.0.attn.qkv.weight" in evidence.failures[0]
    assert next(check.value for check in evidence.checks if check.name == "precision") == 8


def test_a_mix_that_swaps_two_matrices_of_one_size_is_noticed() -> None:
    config = small()
    weights = {name: t.numpy() for name, t in random_gpt(config).state_dict().items()}
    a, b = "blocks.0.attn.proj.weight", "blocks.1.attn.proj.weight"
    mix = {**recipe(config, "int8"), a: 4, b: FLOAT}
    graph = build_engine_graph(config, weights, mix)
    assert misnamed_matrices(graph, config, Quantisation("auto", mix)) == []
    swapped = misnamed_matrices(graph, config, Quantisation("auto", {**mix, a: FLOAT, b: 4}))
    assert [text.split(":")[0] for text in swapped] == [a, b]


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_the_optimiser_does_not_bring_the_slow_norm_back(
    files: Files, precision: str, tmp_path: Path
) -> None:
    operators = {node.op_type for node in optimised(files(precision, "int8"), tmp_path).graph.node}
    assert "LayerNormalization" in operators
    assert "SkipLayerNormalization" not in operators


@pytest.mark.parametrize(
    "request_", [{"precision": "int8", "kv_cache": "int8"}, {"precision": "auto", "max_kl": 0.01}]
)
def test_a_checkpoint_that_overflows_is_refused(
    request_: Any, tiny_config: ModelConfig, tiny_tokenizer: Tokenizer, tmp_path: Path, refused: Refused
) -> None:
    model = random_gpt(tiny_config)
    for name, weight in model.state_dict().items():
        if "mlp" in name:
            weight.mul_(1e30)
    save_checkpoint(tmp_path / "huge", model, tiny_tokenizer)
    with refused(CheckpointError, "position 0"):
        export_checkpoint(tmp_path / "huge", tmp_path / "huge.onnx", **request_)
    assert not (tmp_path / "huge.onnx").exists()
