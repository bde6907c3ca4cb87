"""edgegpt.runtime.artifact: a damaged, foreign or inconsistent file is refused in one sentence."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import yaml
from conftest import Refused
from helpers.tiny_files import TINY, gpt, graph, metadata, tiny_file, write_file
from onnx import TensorProto, helper, save_model

import edgegpt
from edgegpt import contract
from edgegpt.cli.main import main
from edgegpt.errors import ArtifactError, NonFiniteLogitsError
from edgegpt.runtime.artifact import open_artifact, summarize_artifact
from edgegpt_export.graph import build_engine_graph

Spoil = Callable[[Path], Path]  # makes a bad file in a folder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tiny_file(tmp_path)


def with_metadata(**changes: str | None) -> Spoil:
    """The tiny file with some metadata changed, or left out where the value is None."""
    entries: dict[str, str | None] = dict(metadata())
    entries |= {getattr(contract, name): value for name, value in changes.items()}
    kept = {key: value for key, value in entries.items() if value is not None}
    return lambda folder: write_file(folder / "a.onnx", graph(), kept)


def with_config(**changes: object) -> Spoil:
    """The tiny graph under the config of another one."""
    return with_metadata(META_CONFIG=json.dumps({**asdict(TINY), **changes}))


def content(data: bytes) -> Spoil:
    def write(folder: Path) -> Path:
        (folder / "a.onnx").write_bytes(data)
        return folder / "a.onnx"

    return write


def damaged_graph(folder: Path) -> Path:
    return content(tiny_file(folder).read_bytes().replace(b"GroupQueryAttention", b"GruupQueryAttention", 1))(
        folder
    )


def foreign(folder: Path) -> Path:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    relu = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [value])
    save_model(helper.make_model(relu), folder / "a.onnx")
    return folder / "a.onnx"


def of_the_future(folder: Path) -> Path:
    model = graph()
    model.graph.node[0].op_type = "OperatorOfTheFuture"
    return write_file(folder / "a.onnx", model, metadata() | {contract.META_FORMAT_VERSION: "7"})


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.onnx")
    return folder / "pipe.onnx"


def portable_as_engine(folder: Path) -> Path:
    return write_file(folder / "a.onnx", graph(contract.PORTABLE), metadata(contract.ENGINE))


def data_name(name: str | None) -> Spoil:
    return with_metadata(META_DATA_SHA256="0" * 64, META_DATA_FILE=name)


def damaged_config(write: Callable[[Any], str], **changes: object) -> Spoil:
    return with_metadata(META_CONFIG=write({**asdict(TINY), **changes}))


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
    ("another tool", foreign, ["edgegpt export"]),
    ("another format version", of_the_future, [7, contract.FORMAT_VERSION, "export"]),
    ("no tokenizer", with_metadata(META_TOKENIZER=None), ["edgegpt.tokenizer"]),
    ("no precision", with_metadata(META_PRECISION=None), ["edgegpt.precision"]),
    ("target", with_metadata(META_TARGET="gpu"), ["'gpu'"]),
    ("precision", with_metadata(META_PRECISION=r"$\frac$"), [r"'$\\frac$'", "int8"]),
    ("kv_cache", with_metadata(META_KV_CACHE="fp16"), ["'fp16'", "int8"]),
    ("config without sense", with_config(n_embd=130, n_head=4), ["n_embd", 130, 4]),
    ("config type", damaged_config(json.dumps, n_layer="two"), ["n_layer", "'two'"]),
    ("config nan", damaged_config(json.dumps, dropout=float("nan")), ["dropout", "NaN"]),
    ("config key", damaged_config(json.dumps, n_heads=2), ["'n_heads'", "'n_head'"]),
    ("YAML config type", damaged_config(yaml.safe_dump, n_layer="two"), ["n_layer", "'two'"]),
    ("YAML config key", damaged_config(yaml.safe_dump, n_heads=2), ["'n_heads'", "'n_head'"]),
    ("config empty", with_metadata(META_CONFIG=""), ["config"]),
    ("config null", with_metadata(META_CONFIG="null"), ["config"]),
    ("config list", with_metadata(META_CONFIG="[1]"), ["config", "list"]),
    ("config cut", with_metadata(META_CONFIG=TINY.to_json()[:40]), ["config"]),
    ("config twice", with_metadata(META_CONFIG=TINY.to_json()[:-1] + ', "n_head": 4}'), ["'n_head'"]),
    ("config deep", with_metadata(META_CONFIG="{" * 9000), ["config"]),
    ("config without keys", with_metadata(META_CONFIG="{}"), ["'vocab_size'", "'block_size'"]),
    ("vocab_size", with_config(vocab_size=300), ["logits", 272, 300]),
    ("more layers", with_config(n_layer=3), ["past_key_values.2.key"]),
    ("fewer layers", with_config(n_layer=1), ["past_key_values.1.key"]),
    ("heads", with_config(n_head=4, n_embd=64), ["(batch, 2, past, 16)", "(any, 4, any, 16)"]),
    ("head_dim", with_config(n_embd=64), ["(batch, 2, past, 16)", "(any, 2, any, 32)"]),
    ("portable as engine", portable_as_engine, ["logits_start"]),
    ("large tokenizer", with_config(vocab_size=265), [270, 265]),
    ("no tokenizer json", with_metadata(META_TOKENIZER="{}"), ["tokenizer"]),
    ("sampling cut", with_metadata(META_SAMPLING="{"), ["edgegpt.sampling", "JSON"]),
    ("sampling list", with_metadata(META_SAMPLING="[1]"), ["edgegpt.sampling", "'[1]'"]),
    ("sampling value", with_metadata(META_SAMPLING='{"temperature": -1}'), ["temperature", -1]),
    ("sampling key", with_metadata(META_SAMPLING='{"temprature": 1}'), ["temprature"]),
    ("evidence deep", with_metadata(META_EVIDENCE='{"rows":' + "[" * 100_000), ["edgegpt.evidence"]),
    ("no data name", data_name(None), ["edgegpt.data_file"]),
    ("empty data name", data_name(""), ["edgegpt.data_file"]),
    ("data outside", data_name("../big.onnx.data"), ["edgegpt.data_file"]),
    ("data in a folder", data_name("folder/big.onnx.data"), ["edgegpt.data_file"]),
]


@pytest.mark.parametrize(("spoil", "values"), [pytest.param(*bad[1:], id=bad[0]) for bad in BAD_FILES])
def test_a_bad_file_is_refused_in_one_sentence_with_the_offending_value(
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


def test_an_empty_path_is_refused(refused: Refused) -> None:
    with refused(ArtifactError, "empty"):
        open_artifact("")


def test_a_file_whose_config_is_yaml_is_read_as_well(tmp_path: Path) -> None:
    assert open_artifact(with_metadata(META_CONFIG=TINY.to_yaml())(tmp_path)).config == TINY


@pytest.mark.parametrize(
    "evidence",
    [
        '{"rows":5}',
        '{"rows":[1]}',
        '{"rows":[{"length":1}],"checks":{}}',
        '{"rows":[{"length":1,"max_abs":"x"}],"checks":{}}',
        '{"rows":[{"length":1,"max_abs":1e-6}]}',
        '{"rows":[{"length":1,"max_abs":1e-6}],"checks":5}',
    ],
)
def test_info_says_that_evidence_is_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], evidence: str
) -> None:
    assert main(["info", str(with_metadata(META_EVIDENCE=evidence)(tmp_path))]) == 0
    assert "damaged" in capsys.readouterr().out


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2", 10**5, 2**31, 2**80])
def test_a_number_of_threads_outside_its_range_is_refused(file: Path, refused: Refused, threads: Any) -> None:
    with refused(ArtifactError, "threads", repr(threads)):
        open_artifact(file, threads=threads)


@pytest.mark.parametrize("capacity", [0, 12.5, True])
def test_a_capacity_outside_its_range_is_refused(file: Path, refused: Refused, capacity: Any) -> None:
    with refused(edgegpt.EdgeGPTError, "capacity", repr(capacity)):
        edgegpt.load(file, capacity=capacity)


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


# --- external data ---


@pytest.fixture
def external(tmp_path: Path) -> tuple[Path, Path]:
    """A file with external data: the two files."""
    model = graph()
    path = tmp_path / "big.onnx"
    save_model(model, path, save_as_external_data=True, location="big.onnx.data", size_threshold=0)
    data = tmp_path / "big.onnx.data"
    entries = metadata() | {
        contract.META_DATA_SHA256: hashlib.sha256(data.read_bytes()).hexdigest(),
        contract.META_DATA_FILE: data.name,
    }
    write_file(path, model, entries)
    return path, data


def spoil_data(data: Path) -> None:
    data.write_bytes(data.read_bytes()[:-1] + b"\x01")


def test_external_data_is_loaded_and_counted(external: tuple[Path, Path]) -> None:
    path, data = external
    expected = path.stat().st_size + data.stat().st_size
    assert open_artifact(path).bytes == summarize_artifact(path).bytes == expected


def test_external_data_that_is_missing_is_refused(external: tuple[Path, Path], refused: Refused) -> None:
    path, data = external
    data.unlink()
    with refused(ArtifactError, data):
        open_artifact(path)


def test_external_data_of_another_file_is_refused(external: tuple[Path, Path], refused: Refused) -> None:
    path, data = external
    spoil_data(data)
    with refused(ArtifactError, data):
        open_artifact(path)


@pytest.mark.parametrize("part", [0, 1], ids=["file", "data"])
def test_a_file_that_may_not_be_read_is_refused(
    external: tuple[Path, Path], refused: Refused, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    really_open = Path.open

    def deny(self: Path, *args: Any, **kwargs: Any) -> Any:
        if self == external[part]:
            raise PermissionError(13, "Permission denied")
        return really_open(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", deny)
    with refused(ArtifactError, external[part], "Permission denied"):
        open_artifact(external[0])


def test_a_renamed_file_is_refused_with_the_name_its_data_must_have(
    external: tuple[Path, Path], refused: Refused
) -> None:
    path, data = external
    renamed = path.rename(path.with_name("new.onnx"))
    assert open_artifact(renamed).bytes  # its data has its name still
    data.rename(path.with_name("new.onnx.data"))
    with refused(ArtifactError, renamed, data.name):
        open_artifact(renamed)


def test_a_renamed_file_is_checked_against_the_data_that_it_loads(
    external: tuple[Path, Path], refused: Refused
) -> None:
    path, data = external
    renamed = path.rename(path.with_name("new.onnx"))
    data.with_name("new.onnx.data").write_bytes(data.read_bytes())
    spoil_data(data)
    with refused(ArtifactError, data, renamed.name):
        open_artifact(renamed)


def test_a_link_to_the_file_alone_finds_the_data_of_the_file(
    external: tuple[Path, Path], tmp_path: Path, refused: Refused
) -> None:
    path, data = external
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "big.onnx"
    link.symlink_to(path)
    assert open_artifact(link).path == link
    link.with_name(data.name).symlink_to(data)
    assert open_artifact(link).bytes == path.stat().st_size + data.stat().st_size
    link.with_name(data.name).unlink()
    data.unlink()
    with refused(ArtifactError, data.name):
        open_artifact(link)


# --- found by the warm-up ---


def test_nan_weights_are_found_while_loading(tmp_path: Path) -> None:
    weights = {name: tensor.numpy().copy() for name, tensor in gpt().state_dict().items()}
    weights["blocks.1.mlp.fc.weight"][3, 3] = float("nan")
    path = write_file(tmp_path / "nan.onnx", build_engine_graph(TINY, weights), metadata())
    with pytest.raises(NonFiniteLogitsError):
        edgegpt.load(path)


@pytest.mark.parametrize("target", [contract.ENGINE, contract.PORTABLE])
def test_a_block_size_beyond_the_graphs_is_found_while_loading(
    tmp_path: Path, refused: Refused, target: str
) -> None:
    entries = metadata(target, replace(TINY, block_size=49))
    path = write_file(tmp_path / "long.onnx", graph(target), entries)
    with refused(ArtifactError, path, "position 48"):
        edgegpt.load(path)
    assert edgegpt.load(path, capacity=48).generate("go").text  # those positions exist
