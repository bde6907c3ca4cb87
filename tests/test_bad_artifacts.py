"""Every file that is not what it says is refused in one sentence."""

import hashlib
import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import onnxruntime
import pytest
import yaml
from helpers.tiny_files import TINY, gpt, graph, metadata, tiny_file, write_file
from onnx import TensorProto, helper, save_model

import edgegpt
from edgegpt import contract
from edgegpt.cli.main import main
from edgegpt.errors import ArtifactError, EngineError, NonFiniteLogitsError
from edgegpt.runtime.artifact import open_artifact
from edgegpt_export.graph import build_engine_graph


@pytest.fixture
def file(tmp_path):
    return tiny_file(tmp_path)


def refusal(path, **options) -> str:
    with pytest.raises(ArtifactError) as error:
        open_artifact(path, **options)
    sentence = str(error.value)
    assert "\n" not in sentence
    assert len(sentence) < 400 + 2 * len(str(path))
    return sentence


def with_metadata(path, **changes):
    """The tiny file with some metadata changed, or left out where the value is None."""
    entries = metadata()
    for name, value in changes.items():
        entries[getattr(contract, name)] = value
    return write_file(path, graph(), {key: value for key, value in entries.items() if value is not None})


def with_config(path, **changes):
    """The tiny graph under a config that speaks of another one."""
    return with_metadata(path, META_CONFIG=json.dumps({**asdict(TINY), **changes}))


def test_a_missing_file(tmp_path):
    assert "nowhere.onnx does not exist" in refusal(tmp_path / "nowhere.onnx")


def test_a_folder(tmp_path):
    assert "is a folder" in refusal(tmp_path)


def test_an_empty_file(tmp_path):
    path = tmp_path / "empty.onnx"
    path.touch()
    assert "it is empty" in refusal(path)


@pytest.mark.parametrize("part", [0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file(file, part):
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * part)])
    assert "is not a whole ONNX file" in refusal(file)


@pytest.mark.parametrize(
    "content", [b"hello robot", b"\0" * 64, b"PK\x03\x04" * 20, b"\xff" * 64, b"version https://git-lfs"]
)
def test_a_file_that_is_no_onnx(tmp_path, content):
    path = tmp_path / "text.onnx"
    path.write_bytes(content)
    assert "is not a whole ONNX file" in refusal(path)


def test_a_file_with_damaged_bytes_in_its_graph(file):
    whole = bytearray(file.read_bytes())
    at = whole.index(b"GroupQueryAttention")
    whole[at : at + 5] = b"Gruup"
    file.write_bytes(whole)
    assert "cannot be loaded, it may be damaged" in refusal(file)


def test_an_onnx_file_of_another_tool(tmp_path):
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    foreign = helper.make_model(
        helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [value])
    )
    save_model(foreign, tmp_path / "foreign.onnx")
    assert "is an ONNX file of another tool" in refusal(tmp_path / "foreign.onnx")


def test_another_format_version_names_both_and_the_way_out_even_with_unknown_operators(tmp_path):
    model = graph()
    model.graph.node[0].op_type = "OperatorOfTheFuture"
    path = write_file(tmp_path / "new.onnx", model, metadata() | {contract.META_FORMAT_VERSION: "7"})
    sentence = refusal(path)
    assert f"format version 7, this edgegpt reads {contract.FORMAT_VERSION}" in sentence
    assert "export it again" in sentence


def test_missing_metadata_is_named(tmp_path):
    path = with_metadata(tmp_path / "a.onnx", META_TOKENIZER=None, META_PRECISION=None)
    assert "lacks the metadata edgegpt.tokenizer, edgegpt.precision" in refusal(path)


def test_an_unknown_target(tmp_path):
    assert "target 'gpu'" in refusal(with_metadata(tmp_path / "a.onnx", META_TARGET="gpu"))


def test_an_unknown_precision(tmp_path):
    path = with_metadata(tmp_path / "a.onnx", META_PRECISION=r"$\frac$")
    assert r"has weights of '$\\frac$', expected fp32, int8, int4, auto" in refusal(path)


def test_a_config_that_is_not_valid(tmp_path):
    path = with_config(tmp_path / "a.onnx", n_embd=130, n_head=4)
    assert "n_embd must be divisible by n_head, got 130 and 4" in refusal(path)


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump])
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_layer": "two"}, "n_layer must be a whole number, got 'two'"),
        ({"dropout": 1.5}, "dropout must be less than 1, got 1.5"),
        ({"n_heads": 2}, "unknown key 'n_heads', did you mean 'n_head'?"),
    ],
    ids=["type", "range", "key"],
)
def test_a_damaged_config_is_told_key_by_key_however_it_is_written(tmp_path, write, changes, words):
    path = with_metadata(tmp_path / "a.onnx", META_CONFIG=write({**asdict(TINY), **changes}))
    assert refusal(path) == f"the config in {path}: {words}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", " is empty, expected `key: value` lines"),
        ("null", " is empty, expected `key: value` lines"),
        ("[1]", ": expected `key: value` lines, got list"),
        (TINY.to_json()[:40], ", line 1: not valid YAML: "),
        (
            TINY.to_json()[:-1] + ', "n_head": 4}',
            ", line 1: not valid YAML: the key 'n_head' stands there twice",
        ),
        ("{" * 9000, ": not valid YAML: maximum recursion"),
        ("{}", ": the key 'vocab_size' is missing; the key 'block_size' is missing; "),
    ],
    ids=["empty", "null", "list", "cut", "twice", "deep", "no keys"],
)
def test_a_config_that_is_none(tmp_path, text, words):
    path = with_metadata(tmp_path / "a.onnx", META_CONFIG=text)
    assert refusal(path).startswith(f"the config in {path}{words}")


def test_a_file_whose_config_is_yaml_is_read_as_well(tmp_path):
    assert open_artifact(with_metadata(tmp_path / "a.onnx", META_CONFIG=TINY.to_yaml())).config == TINY


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vocab_size": 300}, "output logits is tensor(float) (batch, rows, 272), expected"),
        ({"n_layer": 3}, "lacks the input past_key_values.2.key"),
        ({"n_layer": 1}, "has the input past_key_values.1.key"),
        ({"n_head": 4, "n_embd": 64}, "(batch, 2, past, 16), expected tensor(float) (any, 4, any, 16)"),
        ({"n_embd": 64}, "(batch, 2, past, 16), expected tensor(float) (any, 2, any, 32)"),
    ],
    ids=["vocab_size", "more layers", "fewer layers", "heads", "head_dim"],
)
def test_a_config_that_disagrees_with_the_graph(tmp_path, changes, words):
    assert words in refusal(with_config(tmp_path / "a.onnx", **changes))


def test_a_tokenizer_larger_than_the_model(tmp_path):
    path = with_config(tmp_path / "a.onnx", vocab_size=265)
    assert "has 270 tokens but the model only vocab_size 265" in refusal(path)


def test_a_tokenizer_that_is_none(tmp_path):
    assert "the tokenizer in" in refusal(with_metadata(tmp_path / "a.onnx", META_TOKENIZER="{}"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[1]", "must be a JSON object, got '[1]'"),
        ('{"temperature": -1}', "temperature must be a number from 0 (greedy) to 1000, got -1"),
        ('{"temprature": 1}', "temprature"),
    ],
)
def test_sampling_defaults_that_are_not_valid(tmp_path, text, words):
    assert words in refusal(with_metadata(tmp_path / "a.onnx", META_SAMPLING=text))


def test_metadata_nested_too_deeply(tmp_path):
    path = with_metadata(tmp_path / "a.onnx", META_EVIDENCE='{"rows":' + "[" * 100_000)
    assert "edgegpt.evidence in" in refusal(path)


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
def test_damaged_evidence_is_called_so(tmp_path, capsys, evidence):
    path = with_metadata(tmp_path / "a.onnx", META_EVIDENCE=evidence)
    assert main(["info", str(path)]) == 0
    assert "the evidence in the file is damaged" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2"])
def test_threads_that_are_no_number_of_threads(file, threads):
    assert refusal(file, threads=threads) == f"threads must be a whole number of at least 1, got {threads!r}"


@pytest.mark.parametrize("threads", [10**5, 2**31, 2**80])
def test_more_threads_than_any_board_has(file, threads):
    most = max(256, 4 * (os.cpu_count() or 1))
    assert refusal(file, threads=threads) == f"threads must be at most {most}, got {threads}"


def test_an_empty_path():
    assert refusal("").startswith("the path of the model file is empty")


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.onnx")
    assert "is not a file" in refusal(tmp_path / "pipe.onnx")


def test_a_name_that_no_file_system_takes(tmp_path):
    assert "cannot be read: File name too long" in refusal(tmp_path / ("a" * 300 + ".onnx"))


def test_a_file_that_may_not_be_read(file, monkeypatch):
    def denied(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    assert refusal(file) == f"{file} cannot be read: Permission denied"


def test_a_name_that_is_not_utf_8(file):
    path = file.rename(Path(os.fsdecode(os.fsencode(file.parent) + b"/a\xff.onnx")))
    sentence = refusal(path)
    assert "is not UTF-8, and onnxruntime takes no other file names" in sentence
    sentence.encode()  # can be printed


def test_a_refused_file_prints_nothing(file, monkeypatch, capfd):
    def wrong(*_args, **_kwargs):
        raise RuntimeError("something of its own")

    name = "_create_inference_session"
    monkeypatch.setattr(onnxruntime.InferenceSession, name, wrong)
    assert "cannot be loaded, it may be damaged: something of its own" in refusal(file)
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def external(tmp_path):
    """A file with its weights beside it."""
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


def test_weights_beside_the_file_are_loaded_and_counted(external):
    path, data = external
    assert open_artifact(path).bytes == path.stat().st_size + data.stat().st_size


def test_weights_beside_the_file_that_are_missing(external):
    path, data = external
    data.unlink()
    assert "big.onnx.data is missing" in refusal(path)


def test_a_renamed_file_is_told_how_its_weights_must_be_named(external):
    path, data = external
    renamed, copy = path.rename(path.with_name("new.onnx")), path.with_name("new.onnx.data")
    assert open_artifact(renamed).bytes  # its weights are still beside it under their name
    data.rename(copy)
    wanted = "its weights must be named big.onnx.data and lie beside it"
    assert refusal(renamed) == f"{renamed} was renamed; {wanted}"


def test_a_renamed_file_is_checked_against_the_weights_that_it_loads(external):
    path, data = external
    renamed = path.rename(path.with_name("new.onnx"))
    data.with_name("new.onnx.data").write_bytes(data.read_bytes())
    data.write_bytes(data.read_bytes()[:-1] + b"\x01")
    assert "big.onnx.data does not belong to new.onnx or is damaged" in refusal(renamed)


def test_a_link_to_the_file_alone_finds_the_weights_beside_the_file(external, tmp_path):
    path, data = external
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "big.onnx"
    link.symlink_to(path)
    assert open_artifact(link).path == link
    link.with_name(data.name).symlink_to(data)
    assert open_artifact(link).bytes == path.stat().st_size + data.stat().st_size
    link.with_name(data.name).unlink()
    data.unlink()
    assert "big.onnx.data is missing" in refusal(link)


@pytest.mark.parametrize("name", [None, "", "../big.onnx.data", "folder/big.onnx.data"])
def test_weights_whose_name_is_no_name(tmp_path, name):
    path = with_metadata(tmp_path / "a.onnx", META_DATA_SHA256="0" * 64, META_DATA_FILE=name)
    assert "edgegpt.data_file" in refusal(path)


def test_weights_that_may_not_be_read(external, monkeypatch):
    path, data = external
    real = Path.open

    def denied(self, *args, **kwargs):
        if self.name == data.name:
            raise PermissionError(13, "Permission denied")
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", denied)
    assert refusal(path) == f"{data} cannot be read: Permission denied"


def test_weights_beside_the_file_that_belong_to_another(external):
    path, data = external
    data.write_bytes(data.read_bytes()[:-1] + b"\x01")
    assert "does not belong to big.onnx or is damaged" in refusal(path)


def test_nan_weights_are_found_while_loading(tmp_path):
    weights = {name: tensor.numpy().copy() for name, tensor in gpt().state_dict().items()}
    weights["blocks.1.mlp.fc.weight"][3, 3] = float("nan")
    path = write_file(tmp_path / "nan.onnx", build_engine_graph(TINY, weights), metadata())
    with pytest.raises(NonFiniteLogitsError, match="hold NaN, infinity or values beyond 1e18"):
        edgegpt.load(path)


def refusal_of_load(path, **options) -> str:
    with pytest.raises(ArtifactError) as error:
        edgegpt.load(path, **options)
    sentence = str(error.value)
    assert "\n" not in sentence
    assert path.name in sentence
    assert len(sentence) < 400 + 2 * len(str(path))
    return sentence


@pytest.mark.parametrize("target", [contract.ENGINE, contract.PORTABLE])
def test_a_block_size_beyond_the_graphs_is_found_while_loading(tmp_path, target):
    config = replace(TINY, block_size=49)
    entries = metadata(target, config)
    path = write_file(tmp_path / "long.onnx", graph(target), entries)
    assert "at position 48" in refusal_of_load(path)
    assert edgegpt.load(path, capacity=48).generate("go").text  # those are there


def test_a_portable_graph_that_says_it_is_of_the_engine_is_found_while_loading(tmp_path):
    path = write_file(tmp_path / "other.onnx", graph(contract.PORTABLE), metadata(contract.ENGINE))
    assert "lacks the optional input logits_start" in refusal(path)


@pytest.mark.parametrize("capacity", [12.5, True])
def test_a_capacity_that_is_no_number_of_tokens(file, capacity):
    with pytest.raises(EngineError, match=f"^capacity must be a whole number, got {capacity!r}$"):
        edgegpt.load(file, capacity=capacity)
