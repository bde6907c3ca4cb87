"""edgegpt.runtime.artifact: a damaged, foreign or inconsistent file is refused in one sentence."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import onnxruntime
import pytest
import yaml
from conftest import Refused
from helpers.tiny_files import TINY, forbid, gpt, graph, metadata, tiny_file, write_file
from onnx import save_model

import edgegpt
from edgegpt import contract
from edgegpt.cli.main import main
from edgegpt.errors import ArtifactError, EngineError, NonFiniteLogitsError
from edgegpt.runtime import open_artifact, summarize_artifact
from edgegpt_export.graph import build_engine_graph

Spoil = Callable[[Path], Path]  # makes a bad file in a folder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tiny_file(tmp_path)


def with_metadata(**changes: str | None) -> Spoil:
    """The tiny file with some metadata changed, or left out where the value is None."""
    entries = {**metadata(), **{getattr(contract, f"META_{name}"): value for name, value in changes.items()}}
    kept = {key: value for key, value in entries.items() if value is not None}
    return lambda folder: write_file(folder / "a.onnx", graph(), kept)


def with_config(write: Callable[[Any], str] = json.dumps, **changes: object) -> Spoil:
    """The tiny graph under the config of another one."""
    return with_metadata(CONFIG=write({**asdict(TINY), **changes}))


def with_data_name(name: str | None) -> Spoil:
    return with_metadata(DATA_SHA256="0" * 64, DATA_FILE=name)


def content(data: bytes) -> Spoil:
    def write(folder: Path) -> Path:
        (folder / "a.onnx").write_bytes(data)
        return folder / "a.onnx"

    return write


def damaged_graph(folder: Path) -> Path:
    whole = tiny_file(folder).read_bytes()
    return content(whole.replace(b"GroupQueryAttention", b"GruupQueryAttention", 1))(folder)


def of_the_future(folder: Path) -> Path:
    model = graph()
    model.graph.node[0].op_type = "OperatorOfTheFuture"
    return write_file(folder / "a.onnx", model, metadata() | {contract.META_FORMAT_VERSION: "7"})


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.onnx")
    return folder / "pipe.onnx"


def portable_as_engine(folder: Path) -> Path:
    return write_file(folder / "a.onnx", graph(contract.PORTABLE), metadata(contract.ENGINE))


BAD_FILES: list[tuple[str, Spoil, list[object]]] = [
    ("missing", lambda folder: folder / "nowhere.onnx", ["exist"]),
    ("folder", lambda folder: folder, ["folder"]),
    ("pipe", pipe, ["pipe.onnx"]),
    ("long name", lambda folder: folder / ("a" * 300 + ".onnx"), ["too long"]),
    ("empty", content(b""), ["empty"]),
    ("text", content(b"hello robot"), ["whole"]),
    ("zeros", content(b"\0" * 64), ["whole"]),
    ("ones", content(b"\xff" * 64), ["whole"]),
    ("zip", content(b"PK\x03\x04" * 20), ["whole"]),
    ("pointer", content(b"version https://git-lfs"), ["whole"]),
    ("damaged graph", damaged_graph, ["damaged"]),
    ("another tool", with_metadata(FORMAT_VERSION=None), ["edgegpt export"]),
    ("another format version", of_the_future, [7, contract.FORMAT_VERSION, "export"]),
    ("no tokenizer", with_metadata(TOKENIZER=None), ["edgegpt.tokenizer"]),
    ("no precision", with_metadata(PRECISION=None), ["edgegpt.precision"]),
    ("target", with_metadata(TARGET="gpu"), ["'gpu'"]),
    ("precision", with_metadata(PRECISION=r"$\frac$"), [r"'$\\frac$'", "int8"]),
    ("kv_cache", with_metadata(KV_CACHE="fp16"), ["'fp16'", "int8"]),
    ("config without sense", with_config(n_embd=130, n_head=4), ["n_embd", 130, 4]),
    ("config nan", with_config(dropout=float("nan")), ["dropout", "NaN"]),
    ("config key", with_config(n_heads=2), ["'n_heads'", "'n_head'"]),
    ("YAML config type", with_config(yaml.safe_dump, n_layer="two"), ["n_layer", "'two'"]),
    ("config list", with_metadata(CONFIG="[1]"), ["config", "list"]),
    ("config cut", with_metadata(CONFIG=TINY.to_json()[:40]), ["config"]),
    ("config deep", with_metadata(CONFIG="{" * 9000), ["config"]),
    ("config without keys", with_metadata(CONFIG="{}"), ["'vocab_size'", "'block_size'"]),
    ("vocab_size", with_config(vocab_size=300), ["logits", 272, 300]),
    ("more layers", with_config(n_layer=3), ["past_key_values.2.key"]),
    ("fewer layers", with_config(n_layer=1), ["past_key_values.1.key"]),
    ("heads", with_config(n_head=4, n_embd=64), ["(batch, 2, past, 16)", "(any, 4, any, 16)"]),
    ("head_dim", with_config(n_embd=64), ["(batch, 2, past, 16)", "(any, 2, any, 32)"]),
    ("portable as engine", portable_as_engine, ["logits_start"]),
    ("large tokenizer", with_config(vocab_size=265), [270, 265]),
    ("no tokenizer json", with_metadata(TOKENIZER="{}"), ["tokenizer"]),
    ("sampling cut", with_metadata(SAMPLING="{"), ["edgegpt.sampling", "JSON"]),
    ("sampling list", with_metadata(SAMPLING="[1]"), ["edgegpt.sampling", "'[1]'"]),
    ("sampling value", with_metadata(SAMPLING='{"temperature": -1}'), ["temperature", -1]),
    ("sampling key", with_metadata(SAMPLING='{"temprature": 1}'), ["temprature"]),
    ("evidence deep", with_metadata(EVIDENCE='{"rows":' + "[" * 100_000), ["edgegpt.evidence"]),
    ("no data name", with_data_name(None), ["edgegpt.data_file"]),
    ("empty data name", with_data_name(""), ["edgegpt.data_file"]),
    ("data outside", with_data_name("../big.onnx.data"), ["edgegpt.data_file"]),
    ("data in a folder", with_data_name("folder/big.onnx.data"), ["edgegpt.data_file"]),
]


@pytest.mark.parametrize(("spoil", "values"), [pytest.param(*bad[1:], id=bad[0]) for bad in BAD_FILES])
def test_a_bad_file_is_refused_in_one_short_sentence_with_the_offending_value(
    tmp_path: Path, refused: Refused, spoil: Spoil, values: list[object]
) -> None:
    path = spoil(tmp_path)
    with refused(ArtifactError, *values):
        open_artifact(path)
    with pytest.raises(ArtifactError) as error:
        open_artifact(path)
    assert len(str(error.value)) < 400 + 2 * len(str(path))


@pytest.mark.parametrize("part", [0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(file: Path, refused: Refused, part: float) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * part)])
    for read in (open_artifact, summarize_artifact):
        with refused(ArtifactError, file, "whole"):
            read(file)


def test_a_file_whose_config_is_yaml_is_read_as_well(tmp_path: Path) -> None:
    assert open_artifact(with_config(yaml.safe_dump)(tmp_path)).config == TINY


def test_info_says_that_evidence_is_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(with_metadata(EVIDENCE='{"rows":5}')(tmp_path))]) == 0
    assert "damaged" in capsys.readouterr().out


def test_an_argument_outside_its_range_is_refused(file: Path, refused: Refused) -> None:
    with refused(ArtifactError, "empty"):
        open_artifact("")
    threads: Any
    for threads in (0, -1, 1.5, True, "2", 10**5, 2**31, 2**80):
        with refused(ArtifactError, "threads", repr(threads)):
            open_artifact(file, threads=threads)
    with refused(EngineError, "capacity", 0):
        edgegpt.load(file, capacity=0)


def test_a_name_that_is_not_utf_8_is_refused_in_a_sentence_that_can_be_printed(file: Path) -> None:
    path = file.rename(Path(os.fsdecode(os.fsencode(file.parent) + b"/a\xff.onnx")))
    with pytest.raises(ArtifactError, match="UTF-8") as error:
        open_artifact(path)
    str(error.value).encode()


def test_a_refused_file_prints_nothing(
    file: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def wrong(*_args: object, **_kwargs: object) -> None:
        raise RuntimeError("injected")

    monkeypatch.setattr(onnxruntime.InferenceSession, "_create_inference_session", wrong)
    with refused(ArtifactError, "injected"):
        open_artifact(file)
    assert capfd.readouterr() == ("", "")


class External(NamedTuple):
    """A file whose weights are in another one."""

    path: Path
    data: Path

    @property
    def bytes(self) -> int:
        return self.path.stat().st_size + self.data.stat().st_size

    def spoil_data(self) -> None:
        self.data.write_bytes(self.data.read_bytes()[:-1] + b"\x01")


@pytest.fixture
def external(tmp_path: Path) -> External:
    model, path, data = graph(), tmp_path / "big.onnx", tmp_path / "big.onnx.data"
    save_model(model, path, save_as_external_data=True, location=data.name, size_threshold=0)
    digest = hashlib.sha256(data.read_bytes()).hexdigest()
    entries = metadata() | {contract.META_DATA_SHA256: digest, contract.META_DATA_FILE: data.name}
    return External(write_file(path, model, entries), data)


def test_external_data_is_loaded_and_counted(external: External) -> None:
    assert open_artifact(external.path).bytes == summarize_artifact(external.path).bytes == external.bytes


@pytest.mark.parametrize("spoil", [External.spoil_data, lambda external: external.data.unlink()])
def test_external_data_that_is_missing_or_of_another_file_is_refused(
    external: External, refused: Refused, spoil: Callable[[External], None]
) -> None:
    spoil(external)
    with refused(ArtifactError, external.data):
        open_artifact(external.path)


@pytest.mark.parametrize("part", [0, 1], ids=["file", "data"])
def test_a_file_that_may_not_be_read_is_refused(
    external: External, refused: Refused, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    forbid(external[part], monkeypatch)
    with refused(ArtifactError, external[part], "Permission denied"):
        open_artifact(external.path)


def test_a_renamed_file_needs_the_data_that_it_names(external: External, refused: Refused) -> None:
    renamed, own = external.path.with_name("new.onnx"), external.path.with_name("new.onnx.data")
    external.path.rename(renamed)
    assert open_artifact(renamed).bytes  # its data has its name still
    external.data.rename(own)
    with refused(ArtifactError, renamed, external.data.name):
        open_artifact(renamed)
    external.data.write_bytes(own.read_bytes())
    external.spoil_data()
    with refused(ArtifactError, external.data, renamed.name):
        open_artifact(renamed)


def test_a_link_finds_the_data_of_its_file(external: External, tmp_path: Path, refused: Refused) -> None:
    link = tmp_path / "links" / "big.onnx"
    link.parent.mkdir()
    link.symlink_to(external.path)
    assert open_artifact(link).path == link
    link.with_name(external.data.name).symlink_to(external.data)
    assert open_artifact(link).bytes == external.bytes
    link.with_name(external.data.name).unlink()
    external.data.unlink()
    with refused(ArtifactError, external.data.name):
        open_artifact(link)


def test_nan_weights_are_found_while_loading(tmp_path: Path) -> None:
    weights = {name: tensor.numpy().copy() for name, tensor in gpt().state_dict().items()}
    weights["blocks.1.mlp.fc.weight"][3, 3] = float("nan")
    path = write_file(tmp_path / "nan.onnx", build_engine_graph(TINY, weights), metadata())
    with pytest.raises(NonFiniteLogitsError):
        edgegpt.load(path)


@pytest.mark.parametrize("target", [contract.ENGINE, contract.PORTABLE])
def test_a_block_size_of_another_graph_is_found(tmp_path: Path, refused: Refused, target: str) -> None:
    entries = metadata(target, replace(TINY, block_size=49))
    path = write_file(tmp_path / "long.onnx", graph(target), entries)
    with refused(ArtifactError, path, "position 48"):
        edgegpt.load(path)
    assert edgegpt.load(path, capacity=48).generate("go").text  # those positions exist
