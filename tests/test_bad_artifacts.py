"""Every file that is not what it says is refused in one sentence."""

import hashlib

import pytest
from onnx import TensorProto, helper, save_model
from tiny_files import TINY, gpt, graph, metadata, tiny_file, write_file

import edgegpt
from edgegpt import contract
from edgegpt.artifact import open_artifact
from edgegpt.errors import ArtifactError, NonFiniteLogitsError
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
    return with_metadata(path, META_CONFIG=TINY.model_copy(update=changes).to_yaml())


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


def test_a_config_that_is_not_valid(tmp_path):
    path = with_config(tmp_path / "a.onnx", n_embd=130, n_head=4)
    assert "n_embd must be divisible by n_head, got 130 and 4" in refusal(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vocab_size": 300}, "output logits is tensor(float) (batch, sequence, 272), expected"),
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


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2"])
def test_threads_that_are_no_number_of_threads(file, threads):
    assert refusal(file, threads=threads) == f"threads must be a whole number of at least 1, got {threads!r}"


@pytest.fixture
def external(tmp_path):
    """A file with its weights beside it."""
    model = graph()
    path = tmp_path / "big.onnx"
    save_model(model, path, save_as_external_data=True, location="big.onnx.data", size_threshold=0)
    data = tmp_path / "big.onnx.data"
    entries = metadata() | {contract.META_DATA_SHA256: hashlib.sha256(data.read_bytes()).hexdigest()}
    write_file(path, model, entries)
    return path, data


def test_weights_beside_the_file_are_loaded_and_counted(external):
    path, data = external
    assert open_artifact(path).bytes == path.stat().st_size + data.stat().st_size


def test_weights_beside_the_file_that_are_missing(external):
    path, data = external
    data.unlink()
    assert "big.onnx.data is missing" in refusal(path)


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
