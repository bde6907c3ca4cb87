"""A checkpoint becomes one verified file or none, whatever happens on the way."""

import errno
import hashlib
import json
import os
import re
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
from conftest import random_gpt
from graphs import SMALL, model_and_graph, small

from edgegpt import contract
from edgegpt.artifact import open_artifact
from edgegpt.checkpoint import save_checkpoint
from edgegpt.errors import (
    ArtifactError,
    CheckpointError,
    ConfigError,
    EdgeGPTError,
    SamplingError,
    VerificationError,
)
from edgegpt.onnx_metadata import read_metadata
from edgegpt_export import build_engine_graph, building, export_checkpoint, save, verify_file
from edgegpt_export import export as exporting
from edgegpt_export.portable import build_portable_graph


@pytest.fixture
def checkpoint(tiny_checkpoint, tmp_path) -> Path:
    """A copy of the tiny checkpoint, outside the folder that is exported to."""
    return Path(shutil.copytree(tiny_checkpoint, tmp_path / "checkpoint"))


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture
def weights_beside(monkeypatch):
    """Move the weights of any model out of the .onnx."""
    monkeypatch.setattr(contract, "EXTERNAL_DATA_BYTES", 1000)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*")}


def raising(error: BaseException):
    def fail(*_args, **_kwargs):
        raise error

    return fail


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

    monkeypatch.setattr(building, "build_engine_graph", wrong)
    with pytest.raises(
        VerificationError, match=r"is not made: length 1: the largest difference .* is 0\.\d+, the limit"
    ):
        export_checkpoint(checkpoint, folder / "tiny.onnx")
    assert files(folder) == {}


INTERRUPTIONS = {
    "disk full while writing": (Path, "write_bytes", OSError(errno.ENOSPC, "No space left on device")),
    "disk full while stamping": (
        exporting,
        "append_metadata",
        OSError(errno.ENOSPC, "No space left on device"),
    ),
    "disk full while renaming": (Path, "replace", OSError(errno.ENOSPC, "No space left on device")),
    "interrupt while writing": (exporting, "write_model", KeyboardInterrupt()),
    "interrupt while verifying": (exporting, "verify", KeyboardInterrupt()),
    "interrupt while renaming": (Path, "replace", KeyboardInterrupt()),
}


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("what", INTERRUPTIONS)
def test_the_old_file_stays_whole(what, large, checkpoint, folder, monkeypatch):
    if large:
        monkeypatch.setattr(contract, "EXTERNAL_DATA_BYTES", 1000)
    export_checkpoint(checkpoint, folder / "tiny.onnx")
    before = files(folder)
    where, name, error = INTERRUPTIONS[what]
    monkeypatch.setattr(where, name, raising(error))
    expected = ArtifactError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        export_checkpoint(checkpoint, folder / "tiny.onnx")
    if expected is ArtifactError:
        assert str(caught.value) == f"{folder / 'tiny.onnx'} cannot be written: No space left on device"
    assert files(folder) == before


def test_large_weights_lie_beside_the_file(checkpoint, folder, weights_beside):
    report = export_checkpoint(checkpoint, folder / "tiny.onnx")
    content = files(folder)
    assert sorted(content) == ["tiny.onnx", "tiny.onnx.data"]
    digest = hashlib.sha256(content["tiny.onnx.data"]).hexdigest()
    assert read_metadata(report.path)["edgegpt.data_sha256"] == digest
    assert report.bytes == sum(len(value) for value in content.values())
    tensors = onnx.load(str(report.path), load_external_data=False).graph.initializer
    assert read_metadata(report.path)["edgegpt.data_file"] == "tiny.onnx.data"
    locations = {entry.value for t in tensors for entry in t.external_data if entry.key == "location"}
    assert locations == {"tiny.onnx.data"}
    assert verify_file(report.path, checkpoint).failures == []


def test_both_files_can_be_moved_together(checkpoint, folder, weights_beside, tmp_path):
    export_checkpoint(checkpoint, folder / "tiny.onnx")
    moved = folder.rename(tmp_path / "robot")
    assert open_artifact(moved / "tiny.onnx").evidence


def test_missing_or_changed_data_is_named(checkpoint, folder, weights_beside):
    export_checkpoint(checkpoint, folder / "tiny.onnx")
    data = folder / "tiny.onnx.data"
    content = bytearray(data.read_bytes())
    content[4000] ^= 1
    data.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"tiny.onnx.data does not belong to tiny.onnx or is damaged"):
        verify_file(folder / "tiny.onnx", checkpoint)
    data.unlink()
    with pytest.raises(ArtifactError, match=r"tiny.onnx.data is missing"):
        verify_file(folder / "tiny.onnx", checkpoint)


def test_any_changed_bit_of_the_file_is_noticed(checkpoint, folder):
    path = export_checkpoint(checkpoint, folder / "tiny.onnx").path
    content = path.read_bytes()
    seal = content.rindex(b"edgegpt.file_sha256")
    for at in [*range(0, seal - 4, len(content) // 60), *range(len(content) - 64, len(content), 7)]:
        path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        with pytest.raises(ArtifactError):
            open_artifact(path)
    path.write_bytes(content + content[seal - 4 :])
    with pytest.raises(ArtifactError, match="is damaged or was changed after its export"):
        open_artifact(path)
    path.write_bytes(content)
    open_artifact(path)


def test_a_changed_weight_is_noticed_when_the_file_is_opened(checkpoint, folder):
    path = export_checkpoint(checkpoint, folder / "tiny.onnx").path
    content = bytearray(path.read_bytes())
    weight = onnx.load(str(path)).graph.initializer[0].raw_data
    content[content.index(weight) + 5] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArtifactError) as error:
        open_artifact(path)
    assert re.fullmatch(
        rf"{path} is damaged or was changed after its export: its sha256 begins \w{{12}}, expected \w{{12}}; "
        r"copy it again or export it again",
        str(error.value),
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_polite_kill_leaves_nothing_behind(number, checkpoint, folder, monkeypatch):
    before = signal.getsignal(number)
    monkeypatch.setattr(exporting, "verify", lambda *_: signal.raise_signal(number))
    with pytest.raises(KeyboardInterrupt):
        export_checkpoint(checkpoint, folder / "tiny.onnx")
    assert files(folder) == {}
    assert signal.getsignal(number) == before


def test_a_program_that_handles_its_own_signals_keeps_them(checkpoint, folder, monkeypatch):
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("TERM"))
    real = exporting.verify
    monkeypatch.setattr(exporting, "verify", lambda *a: (signal.raise_signal(signal.SIGTERM), real(*a))[1])
    try:
        export_checkpoint(checkpoint, folder / "tiny.onnx")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == ["TERM"]


def test_an_export_runs_in_any_thread(checkpoint, folder):
    with ThreadPoolExecutor() as pool:
        assert pool.submit(export_checkpoint, checkpoint, folder / "tiny.onnx").result().path.exists()


@pytest.mark.parametrize("renames", [0, 1, 2, 3])
@pytest.mark.parametrize("old_is_large", [False, True])
def test_an_interrupt_between_the_renames_leaves_one_whole_model(
    renames, old_is_large, checkpoint, folder, tiny_config, tiny_tokenizer, tmp_path, monkeypatch
):
    out = folder / "tiny.onnx"
    monkeypatch.setattr(contract, "EXTERNAL_DATA_BYTES", 1000 if old_is_large else 10**9)
    export_checkpoint(checkpoint, out)
    before = files(folder)
    other = tmp_path / "other"
    save_checkpoint(other, random_gpt(tiny_config, seed=1), tiny_tokenizer)
    monkeypatch.setattr(contract, "EXTERNAL_DATA_BYTES", 1000)

    done, replace = [], Path.replace

    def interrupted(self, target):
        if len(done) == renames:
            done.append("interrupt")
            raise KeyboardInterrupt
        done.append(target)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    needed = 3 if old_is_large else 2
    if renames >= needed:
        export_checkpoint(other, out)
        monkeypatch.undo()
        assert verify_file(out, other).failures == []
        return
    with pytest.raises(KeyboardInterrupt):
        export_checkpoint(other, out)
    assert files(folder) == before


def test_data_of_an_older_large_model_goes_with_it(checkpoint, folder, monkeypatch):
    monkeypatch.setattr(contract, "EXTERNAL_DATA_BYTES", 1000)
    export_checkpoint(checkpoint, folder / "tiny.onnx")
    monkeypatch.setattr(contract, "EXTERNAL_DATA_BYTES", 10**9)
    export_checkpoint(checkpoint, folder / "tiny.onnx")
    assert list(files(folder)) == ["tiny.onnx"]


def test_a_failed_write_of_the_data_leaves_nothing(checkpoint, folder, weights_beside, monkeypatch):
    monkeypatch.setattr(save, "_move_out", raising(OSError(errno.EDQUOT, "Disk quota exceeded")))
    with pytest.raises(ArtifactError, match="Disk quota exceeded"):
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


def mixed_modes():
    model = random_gpt(SMALL).train()
    model.blocks[0].eval()
    return model, [part.training for part in model.modules()]


def test_tracing_happens_in_eval_mode_and_gives_every_submodule_its_own_mode_back(monkeypatch):
    model, before = mixed_modes()
    seen = []

    def traced(module, *_args, **_kwargs):
        seen.extend(part.training for part in module.modules())
        return SimpleNamespace(model_proto=onnx.ModelProto())

    monkeypatch.setattr(torch.onnx, "export", traced)
    build_portable_graph(model)
    assert seen
    assert not any(seen)
    assert [part.training for part in model.modules()] == before


@pytest.mark.parametrize("error", [RuntimeError("no such operator\nand more"), KeyboardInterrupt()])
def test_modes_come_back_when_tracing_fails(error, monkeypatch):
    model, before = mixed_modes()
    monkeypatch.setattr(torch.onnx, "export", raising(error))
    with pytest.raises((EdgeGPTError, KeyboardInterrupt)) as caught:
        build_portable_graph(model)
    assert [part.training for part in model.modules()] == before
    if isinstance(error, RuntimeError):
        assert str(caught.value).endswith("cannot export the model: RuntimeError: no such operator")


def test_tracing_says_nothing(capfd, monkeypatch, recwarn):
    def chatty(*_args, **_kwargs):
        import logging
        import warnings

        print("tracing")
        warnings.warn("chatter", stacklevel=1)
        logging.getLogger("torch.onnx").warning("more chatter")
        return SimpleNamespace(model_proto=onnx.ModelProto())

    monkeypatch.setattr(torch.onnx, "export", chatty)
    build_portable_graph(model_and_graph("engine")[0])
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list
