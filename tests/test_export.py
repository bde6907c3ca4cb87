"""A checkpoint becomes one verified file, or none."""

import hashlib
import json
import logging
import os
import re
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import pytest
import torch
from conftest import Refused, random_gpt
from helpers.graphs import SMALL, mixed_modes, model_and_graph, modes, small

from edgegpt.config import ModelConfig
from edgegpt.errors import (
    ArtifactError,
    CheckpointError,
    ConfigError,
    EdgeGPTError,
    SamplingError,
    VerificationError,
)
from edgegpt.model import save_checkpoint
from edgegpt.runtime import open_artifact, read_metadata
from edgegpt.tokenizer import Tokenizer
from edgegpt_export import build_engine_graph, export, export_checkpoint, verify_file
from edgegpt_export.portable import build_portable_graph


def test_the_metadata_describe_a_file_that_the_runtime_opens(
    checkpoint: Path, folder: Path, tiny_config: ModelConfig
) -> None:
    steps: list[str] = []
    out = folder / "tiny.onnx"
    report = export_checkpoint(checkpoint, out, on_step=steps.append)
    metadata = read_metadata(out)
    assert list(folder.iterdir()) == [out]
    assert metadata["edgegpt.format_version"] == "2"
    assert metadata["edgegpt.target"] == "engine"
    assert metadata["edgegpt.precision"] == metadata["edgegpt.kv_cache"] == "fp32"
    assert metadata["edgegpt.recipe"] == metadata["edgegpt.sampling"] == "{}"
    assert metadata["edgegpt.config"] == tiny_config.to_json()
    digest = hashlib.sha256((checkpoint / "model.safetensors").read_bytes()).hexdigest()
    assert metadata["edgegpt.weights_sha256"] == digest
    assert metadata["edgegpt.evidence"] == report.evidence.to_json()
    assert re.fullmatch(r"edgegpt \S+, torch \S+, onnx \S+, onnxruntime \S+", metadata["edgegpt.tool"])
    artifact = open_artifact(out)
    assert (artifact.config, artifact.evidence) == (tiny_config, json.loads(report.evidence.to_json()))
    assert report.path == out
    assert report.bytes == artifact.bytes == out.stat().st_size
    assert list(report.seconds) == ["load", "build", "save", "verify"]
    assert {"building the engine graph", "saving", "verifying", "length 48"} <= set(steps)
    onnx.checker.check_model(str(out))


def test_the_same_checkpoint_gives_the_same_bytes(checkpoint: Path, folder: Path) -> None:
    a, b = (export_checkpoint(checkpoint, folder / name).path for name in ("a.onnx", "b.onnx"))
    assert a.read_bytes() == b.read_bytes()


def test_tracing_is_silent_and_in_eval_mode_and_gives_every_submodule_its_own_mode_back(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    model, before = mixed_modes()
    seen: list[bool] = []

    def chatty(module: Any, *_args: Any, **_kwargs: Any) -> Any:
        seen.extend(modes(module))
        print("tracing")
        warnings.warn("chatter", stacklevel=1)
        logging.getLogger("torch.onnx").warning("more chatter")
        return SimpleNamespace(model_proto=onnx.ModelProto())

    monkeypatch.setattr(torch.onnx, "export", chatty)
    build_portable_graph(model)
    assert seen
    assert not any(seen)
    assert modes(model) == before
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list


def test_modes_come_back_when_tracing_fails(monkeypatch: pytest.MonkeyPatch, refused: Refused) -> None:
    model, before = mixed_modes()
    failing = Mock(side_effect=[RuntimeError("no such operator\nand more"), KeyboardInterrupt])
    monkeypatch.setattr(torch.onnx, "export", failing)
    with refused(EdgeGPTError, "no such operator"):
        build_portable_graph(model)
    assert modes(model) == before
    with pytest.raises(KeyboardInterrupt):
        build_portable_graph(model)
    assert modes(model) == before


@pytest.mark.slow
def test_the_portable_target_is_exported_verified_and_free_of_this_machine_s_paths(
    checkpoint: Path, folder: Path
) -> None:
    report = export_checkpoint(checkpoint, folder / "tiny.onnx", target="portable")
    assert report.evidence.failures == []
    assert open_artifact(report.path).target == "portable"
    assert verify_file(report.path, checkpoint) == report.evidence
    content = report.path.read_bytes()
    assert not [text for text in (b"/work", b"edgegpt/model.py", b"stack_trace") if text in content]


def test_the_engine_target_is_twelve_nodes_a_block_and_eleven_more_named_by_paths() -> None:
    _, graph = model_and_graph("engine")
    assert len(graph.graph.node) == 12 * SMALL.n_layer + 11
    _, graph = model_and_graph("engine", small(qkv_bias=True))
    names = {node.name for node in graph.graph.node}
    assert len(names) == len(graph.graph.node)
    assert all(re.fullmatch(r"(/[a-z_0-9.]+)+", name) for name in names)
    assert names > {
        "/wte",
        "/blocks.0/attn/qkv",
        "/blocks.1/mlp/gelu",
        "/blocks.1/norm_2",
        "/norm_f",
        "/head",
    }


def test_the_builder_takes_arrays_of_any_float_type_and_names_what_is_wrong(refused: Refused) -> None:
    model, _ = model_and_graph("engine")
    weights = {name: tensor.numpy().astype(np.float16) for name, tensor in model.state_dict().items()}
    graph = build_engine_graph(SMALL, weights)
    types = {tensor.name: tensor.data_type for tensor in graph.graph.initializer}
    assert {types[name] for name in weights} == {onnx.TensorProto.FLOAT}
    del weights["norm_f.bias"]
    weights["wpe.weight"] = weights["wpe.weight"][:3]
    with refused(CheckpointError, "wpe.weight", [3, 16], [10, 16], "norm_f.bias"):
        build_engine_graph(SMALL, weights)


def test_a_head_dim_not_divisible_by_eight_is_refused_with_the_way_out(
    folder: Path, tiny_tokenizer: Tokenizer, tmp_path: Path, refused: Refused
) -> None:
    save_checkpoint(tmp_path / "narrow", random_gpt(small(vocab_size=272, n_embd=20)), tiny_tokenizer)
    with refused(ConfigError, 20, 10, "portable"):
        export_checkpoint(tmp_path / "narrow", folder / "narrow.onnx")
    assert list(folder.iterdir()) == []


def test_a_miss_of_the_verification_names_the_number_and_leaves_no_file(
    checkpoint: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    def wrong(config: Any, weights: Any, *quantisation: Any) -> onnx.ModelProto:
        bent = {**weights, "head.weight": weights["head.weight"] * np.float32(1.01)}
        return build_engine_graph(config, bent, *quantisation)

    monkeypatch.setattr(export, "build_engine_graph", wrong)
    with refused(VerificationError, folder / "tiny.onnx", "length 1"):
        export_checkpoint(checkpoint, folder / "tiny.onnx")
    assert list(folder.iterdir()) == []


def test_sampling_defaults_come_from_the_checkpoint(checkpoint: Path, folder: Path) -> None:
    (checkpoint / "sampling.yaml").write_text('temperature: 0.0\nmax_new_tokens: 64\nstop: ["\\n"]\n')
    artifact = open_artifact(export_checkpoint(checkpoint, folder / "tiny.onnx").path)
    stored = {"temperature": 0.0, "max_new_tokens": 64, "stop": ["\n"]}
    assert json.loads(read_metadata(artifact.path)["edgegpt.sampling"]) == stored
    assert (artifact.sampling.temperature, artifact.sampling.stop) == (0.0, ("\n",))


@pytest.mark.parametrize(
    ("text", "error", "values"),
    [
        ("temprature: 0.5\n", ConfigError, ["'temprature'", "'temperature'"]),
        ("top_p: 1.5\n", SamplingError, ["top_p", 1.5]),
        ("- 1\n", ConfigError, []),
        ("stop: !!set {a, b}\n", SamplingError, ["stop", "{"]),
        ("stop: {a: b}\n", SamplingError, ["stop", "{'a'"]),
        ("!!set {top_p}\n", ConfigError, []),
        (None, ConfigError, ["nowhere.yaml"]),
    ],
)
def test_bad_sampling_defaults_are_refused(
    text: str | None, error: Any, values: Any, checkpoint: Path, folder: Path, refused: Refused
) -> None:
    sampling = checkpoint / "sampling.yaml"
    sampling.symlink_to("nowhere.yaml") if text is None else sampling.write_text(text)
    with refused(error, "sampling.yaml", *values):
        export_checkpoint(checkpoint, folder / "tiny.onnx")
    assert list(folder.iterdir()) == []


AUTO = {"precision": "auto"}
BAD_REQUESTS: list[tuple[str, dict[str, Any], type[EdgeGPTError], list[object]]] = [
    ("nowhere/tiny.onnx", {}, ArtifactError, ["nowhere"]),
    ("folder.onnx", {}, ArtifactError, ["folder.onnx"]),
    ("tiny.pt", {}, ArtifactError, ["tiny.pt"]),
    (os.fsdecode(b"tiny\xff.onnx"), {}, ArtifactError, ["UTF-8"]),
    ("tiny.onnx", {"target": "tpu"}, EdgeGPTError, ["'tpu'", "engine", "portable"]),
    ("tiny.onnx", {"precision": "int2"}, EdgeGPTError, ["'int2'", "int4"]),
    ("tiny.onnx", {"kv_cache": "fp16"}, EdgeGPTError, ["'fp16'", "int8"]),
    ("tiny.onnx", {"target": "portable", "precision": "int8"}, EdgeGPTError, ["int8", "portable"]),
    ("tiny.onnx", AUTO, EdgeGPTError, ["max_mb", "max_kl"]),
    ("tiny.onnx", {**AUTO, "max_mb": 1.0, "max_kl": 0.1}, EdgeGPTError, ["max_mb", "max_kl"]),
    ("tiny.onnx", {"precision": "int4", "max_mb": 1.0}, EdgeGPTError, ["max_mb", "int4"]),
    ("tiny.onnx", {**AUTO, "max_mb": 0.0}, EdgeGPTError, ["max_mb", 0]),
    ("tiny.onnx", {**AUTO, "max_kl": -1.0}, EdgeGPTError, ["max_kl", -1]),
    ("tiny.onnx", {**AUTO, "max_kl": float("nan")}, EdgeGPTError, ["max_kl", "nan"]),
]


@pytest.mark.parametrize(("name", "arguments", "error", "values"), BAD_REQUESTS)
def test_a_bad_request_is_refused_before_any_work(
    name: str, arguments: Any, error: Any, values: Any, checkpoint: Path, folder: Path, refused: Refused
) -> None:
    (folder / "folder.onnx").mkdir()
    steps: list[str] = []
    with refused(error, *values):
        export_checkpoint(checkpoint, folder / name, **arguments, on_step=steps.append)
    assert steps == []
    assert [path.name for path in folder.rglob("*")] == ["folder.onnx"]
