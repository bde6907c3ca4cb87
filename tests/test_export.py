"""A checkpoint becomes one verified file or none, whatever happens on the way."""

import hashlib
import json
import os
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import random_gpt
from helpers.graphs import SMALL, model_and_graph, small

from edgegpt.errors import (
    ArtifactError,
    CheckpointError,
    ConfigError,
    EdgeGPTError,
    SamplingError,
    VerificationError,
)
from edgegpt.model.checkpoint import save_checkpoint
from edgegpt.runtime.artifact import open_artifact
from edgegpt.runtime.onnx_file import read_metadata
from edgegpt_export import build_engine_graph, export, export_checkpoint, verify_file


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*")}


def test_the_file_says_what_it_is(checkpoint, folder, tiny_config):
    steps = []
    report = export_checkpoint(checkpoint, folder / "tiny.onnx", on_step=steps.append)
    metadata = read_metadata(folder / "tiny.onnx")
    assert list(files(folder)) == ["tiny.onnx"]
    assert metadata["edgegpt.format_version"] == "2"
    assert metadata["edgegpt.target"] == "engine"
    assert metadata["edgegpt.precision"] == metadata["edgegpt.kv_cache"] == "fp32"
    assert metadata["edgegpt.recipe"] == metadata["edgegpt.sampling"] == "{}"
    assert metadata["edgegpt.config"] == tiny_config.to_json()
    digest = hashlib.sha256((checkpoint / "model.safetensors").read_bytes()).hexdigest()
    assert metadata["edgegpt.weights_sha256"] == digest
    assert metadata["edgegpt.evidence"] == report.evidence.to_json()
    assert re.fullmatch(r"edgegpt \S+, torch \S+, onnx \S+, onnxruntime \S+", metadata["edgegpt.tool"])
    assert report.path == folder / "tiny.onnx"
    assert report.bytes == report.path.stat().st_size
    assert list(report.seconds) == ["load", "build", "save", "verify"]
    assert {"building the engine graph", "saving", "verifying", "length 48"} <= set(steps)
    onnx.checker.check_model(str(report.path))


def test_the_runtime_opens_it(checkpoint, folder, tiny_config):
    report = export_checkpoint(checkpoint, folder / "tiny.onnx")
    artifact = open_artifact(report.path)
    assert artifact.config == tiny_config
    assert artifact.evidence == json.loads(report.evidence.to_json())
    assert artifact.bytes == report.bytes


def test_the_same_checkpoint_gives_the_same_bytes(checkpoint, folder):
    export_checkpoint(checkpoint, folder / "a.onnx")
    export_checkpoint(checkpoint, folder / "b.onnx")
    assert files(folder)["a.onnx"] == files(folder)["b.onnx"]


@pytest.mark.slow
def test_the_portable_target_is_exported_verified_and_free_of_this_machine_s_paths(checkpoint, folder):
    report = export_checkpoint(checkpoint, folder / "tiny.onnx", target="portable")
    assert report.evidence.failures == []
    assert open_artifact(report.path).target == "portable"
    assert verify_file(report.path, checkpoint) == report.evidence
    content = report.path.read_bytes()
    assert b"/work" not in content
    assert b"edgegpt/model.py" not in content
    assert b"stack_trace" not in content


def test_node_names_of_the_engine_target_are_paths():
    _, graph = model_and_graph("engine", small(qkv_bias=True))
    names = [node.name for node in graph.graph.node]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"(/[a-z_0-9.]+)+", name) for name in names)
    assert {
        "/wte",
        "/blocks.0/attn/qkv",
        "/blocks.1/mlp/gelu",
        "/blocks.1/norm_2",
        "/norm_f",
        "/head",
    } <= set(names)


def test_a_block_is_twelve_nodes_and_the_rest_eleven_more():
    _, graph = model_and_graph("engine")
    assert len(graph.graph.node) == 12 * SMALL.n_layer + 11


def test_the_builder_takes_arrays_of_any_float_type_and_names_what_is_wrong():
    model, _ = model_and_graph("engine")
    weights = {name: tensor.numpy().astype(np.float16) for name, tensor in model.state_dict().items()}
    graph = build_engine_graph(SMALL, weights)
    types = {tensor.name: tensor.data_type for tensor in graph.graph.initializer}
    assert {types[name] for name in weights} == {onnx.TensorProto.FLOAT}
    del weights["norm_f.bias"]
    weights["wpe.weight"] = weights["wpe.weight"][:3]
    with pytest.raises(
        CheckpointError, match=r"wpe.weight is \[3, 16\], expected \[10, 16\]; norm_f.bias is missing"
    ):
        build_engine_graph(SMALL, weights)


def test_a_head_dim_not_divisible_by_eight_is_refused_with_the_way_out(folder, tiny_tokenizer, tmp_path):
    save_checkpoint(tmp_path / "narrow", random_gpt(small(vocab_size=272, n_embd=20)), tiny_tokenizer)
    with pytest.raises(ConfigError, match=r"divisible by 8, got 20 / 2 = 10; the portable target takes any"):
        export_checkpoint(tmp_path / "narrow", folder / "narrow.onnx")
    assert files(folder) == {}


def test_a_miss_of_the_verification_names_the_number_and_leaves_no_file(checkpoint, folder, monkeypatch):
    def wrong(config, weights, *quantisation):
        bent = dict(weights)
        bent["head.weight"] = bent["head.weight"] * np.float32(1.01)
        return build_engine_graph(config, bent, *quantisation)

    monkeypatch.setattr(export, "build_engine_graph", wrong)
    with pytest.raises(
        VerificationError, match=r"is not made: length 1: the largest difference .* is 0\.\d+, the limit"
    ):
        export_checkpoint(checkpoint, folder / "tiny.onnx")
    assert files(folder) == {}


def test_sampling_defaults_come_from_the_checkpoint(checkpoint, folder):
    (checkpoint / "sampling.yaml").write_text('temperature: 0.0\nmax_new_tokens: 64\nstop: ["\\n"]\n')
    export_checkpoint(checkpoint, folder / "tiny.onnx")
    artifact = open_artifact(folder / "tiny.onnx")
    assert json.loads(read_metadata(folder / "tiny.onnx")["edgegpt.sampling"]) == {
        "temperature": 0.0,
        "max_new_tokens": 64,
        "stop": ["\n"],
    }
    assert (artifact.sampling.temperature, artifact.sampling.stop) == (0.0, ("\n",))


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "temprature: 0.5\n",
            ConfigError,
            r"unknown key 'temprature', did you mean 'temperature'\?",
        ),
        ("top_p: 1.5\n", SamplingError, "sampling.yaml: top_p must be .*1.5"),
        ("- 1\n", ConfigError, "sampling.yaml: expected"),
        ("stop: !!set {a, b}\n", SamplingError, "sampling.yaml: stop must be .* got {"),
        ("stop: {a: b}\n", SamplingError, r"stop must be a string or a list of strings, got {'a'"),
        ("!!set {top_p}\n", ConfigError, "sampling.yaml: expected"),
    ],
)
def test_bad_sampling_defaults_are_refused(text, error, message, checkpoint, folder):
    (checkpoint / "sampling.yaml").write_text(text)
    with pytest.raises(error, match=message):
        export_checkpoint(checkpoint, folder / "tiny.onnx")
    assert files(folder) == {}


def test_sampling_defaults_behind_a_broken_link_are_not_ignored(checkpoint, folder):
    (checkpoint / "sampling.yaml").symlink_to("nowhere.yaml")
    with pytest.raises(ConfigError, match=r"sampling.yaml is a link to nowhere.yaml, which does not exist"):
        export_checkpoint(checkpoint, folder / "tiny.onnx")


def test_a_name_that_is_not_utf_8_is_refused_before_any_work(checkpoint, folder):
    steps = []
    out = Path(os.fsdecode(os.fsencode(folder) + b"/a\xff.onnx"))
    with pytest.raises(ArtifactError, match="is not UTF-8, and onnxruntime takes no other file names"):
        export_checkpoint(checkpoint, out, on_step=steps.append)
    assert steps == []


def test_bad_requests_are_refused_in_one_sentence(checkpoint, folder):
    with pytest.raises(ArtifactError, match=r"the folder .*nowhere does not exist"):
        export_checkpoint(checkpoint, folder / "nowhere" / "tiny.onnx")
    (folder / "folder.onnx").mkdir()
    with pytest.raises(ArtifactError, match=r"folder.onnx is a folder"):
        export_checkpoint(checkpoint, folder / "folder.onnx")
    with pytest.raises(ArtifactError, match=r"must end in .onnx, got .*tiny.pt"):
        export_checkpoint(checkpoint, folder / "tiny.pt")
    with pytest.raises(EdgeGPTError, match="target must be engine or portable, got 'tpu'"):
        export_checkpoint(checkpoint, folder / "tiny.onnx", target="tpu")
    with pytest.raises(EdgeGPTError, match="precision must be fp32, int8, int4, auto, got 'int2'"):
        export_checkpoint(checkpoint, folder / "tiny.onnx", precision="int2")
    with pytest.raises(EdgeGPTError, match="kv_cache must be fp32 or int8, got 'fp16'"):
        export_checkpoint(checkpoint, folder / "tiny.onnx", kv_cache="fp16")
    with pytest.raises(EdgeGPTError, match=r"the portable target .* is fp32, got int8 with a cache of fp32"):
        export_checkpoint(checkpoint, folder / "tiny.onnx", target="portable", precision="int8")
    with pytest.raises(CheckpointError, match="does not exist"):
        export_checkpoint(folder / "none", folder / "tiny.onnx")
