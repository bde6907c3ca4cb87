"""edgegpt.config and edgegpt.yaml_file: a config is a value, and a bad one says what is wrong with it."""

import dataclasses
import json
import time
from pathlib import Path

import jsonschema
import pytest
from json_schemas import schemas

from edgegpt.config.model import ModelConfig
from edgegpt.config.yaml_reader import parse_yaml
from edgegpt.errors import ConfigError

CONFIGS = Path(__file__).parent.parent / "configs"
MODELS = sorted((CONFIGS / "models").glob("*.yaml"))
GOOD = {"vocab_size": 300, "block_size": 16, "n_layer": 2, "n_head": 4, "n_embd": 32}


def text_of(**changes: object) -> str:
    return "".join(f"{key}: {value}\n" for key, value in {**GOOD, **changes}.items())


def write(folder: Path, **changes: object) -> Path:
    path = folder / "model.yaml"
    path.write_text(text_of(**changes), encoding="utf-8")
    return path


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_every_model_config_loads_and_survives_a_round_trip(path: Path) -> None:
    config = ModelConfig.from_yaml(path)
    assert ModelConfig.parse(config.to_yaml(), "again") == config
    assert ModelConfig.parse(config.to_json(), "again") == config
    assert parse_yaml(config.to_json(), "as YAML") == dataclasses.asdict(config)


def test_the_shipped_models_have_the_shapes_they_are_known_by() -> None:
    keys = ("n_embd", "n_layer", "n_head", "vocab_size", "block_size", "tie_embeddings", "qkv_bias")
    shapes = {
        path.stem: tuple(getattr(ModelConfig.from_yaml(path), key) for key in keys)
        for path in MODELS
        if path.stem in ("nano", "micro", "small", "gpt2")
    }
    assert shapes == {
        "nano": (128, 4, 4, 512, 256, False, False),
        "micro": (256, 6, 8, 4096, 512, False, False),
        "small": (512, 8, 8, 8192, 1024, False, False),
        "gpt2": (768, 12, 12, 50257, 1024, True, True),
    }


def test_the_json_schemas_for_editors_are_up_to_date() -> None:
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in CONFIGS.glob("schemas/*.json")}
    assert on_disk == schemas(), "run `python tools/json_schemas.py`"


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*/*.yaml")), ids=lambda path: path.stem)
def test_an_editor_finds_the_schema_and_the_schema_accepts_the_config(path: Path) -> None:
    first_line = path.read_text(encoding="utf-8").splitlines()[0]
    schema = path.parent / first_line.removeprefix("# yaml-language-server: $schema=")
    jsonschema.validate(
        parse_yaml(path.read_text(encoding="utf-8"), path.name), json.loads(schema.read_text())
    )


def test_a_config_cannot_be_changed() -> None:
    config = ModelConfig.parse(text_of(), "here")
    with pytest.raises(dataclasses.FrozenInstanceError, match="n_embd"):
        config.n_embd = 64  # type: ignore[misc]
    assert {config: "and is hashable"}[ModelConfig.parse(text_of(), "there")]


def test_head_dim_and_n_kv_head_follow_from_the_config() -> None:
    config = ModelConfig.parse(text_of(), "here")
    assert (config.head_dim, config.n_kv_head) == (8, 4)


@pytest.mark.parametrize(
    ("typed", "meant"), [("n_embed", "n_embd"), ("nlayer", "n_layer"), ("block_sise", "block_size")]
)
def test_an_unknown_key_is_refused_with_the_nearest_valid_one(tmp_path: Path, typed: str, meant: str) -> None:
    path = write(tmp_path, **{typed: 8})
    with pytest.raises(ConfigError) as error:
        ModelConfig.from_yaml(path)
    assert str(error.value) == f"{path}: unknown key {typed!r}, did you mean {meant!r}?"


def test_an_unknown_key_near_to_nothing_gets_the_list_of_keys() -> None:
    with pytest.raises(ConfigError, match="unknown key 'zzz'; the keys are family, vocab_size, block_size, "):
        ModelConfig.parse(text_of(zzz=1), "here")


def test_a_width_that_the_heads_do_not_divide_is_a_sentence_with_both_numbers(tmp_path: Path) -> None:
    path = write(tmp_path, n_embd=130)
    with pytest.raises(ConfigError) as error:
        ModelConfig.from_yaml(path)
    assert str(error.value) == f"{path}: n_embd must be divisible by n_head, got 130 and 4"


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("n_layer", "two", "'two'"),
        ("n_layer", "2.0", "2.0"),
        ("n_layer", "0", "0"),
        ("n_layer", "-1", "-1"),
        ("n_layer", "true", "True"),
        ("n_layer", "null", "None"),
        ("n_layer", "[2]", "[2]"),
        ("vocab_size", "'300'", "'300'"),
        ("dropout", "1.0", "1.0"),
        ("dropout", "-0.1", "-0.1"),
        ("dropout", ".nan", "nan"),
        ("qkv_bias", "1", "1"),
        ("tie_embeddings", "'yes'", "'yes'"),
        ("gelu", "fast", "'fast'"),
        ("family", "bert", "'bert'"),
    ],
)
def test_a_wrong_value_is_named_with_its_file_and_key(
    tmp_path: Path, key: str, value: str, shown: str
) -> None:
    path = write(tmp_path, **{key: value})
    with pytest.raises(ConfigError) as error:
        ModelConfig.from_yaml(path)
    message = str(error.value)
    assert message.startswith(f"{path}: {key} ")
    assert message.endswith(f", got {shown}")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"n_embd": 130}, "n_embd must be divisible by n_head, got 130 and 4"),
        ({"n_layer": True}, "n_layer must be a whole number from 1 to 1024, got True"),
        ({"n_layer": 2.0}, "n_layer must be a whole number from 1 to 1024, got 2.0"),
        ({"n_head": 0}, "n_head must be a whole number from 1 to 16777216, got 0"),
        ({"dropout": 1}, "dropout must be a number from 0 to below 1, got 1"),
        ({"dropout": False}, "dropout must be a number from 0 to below 1, got False"),
        ({"qkv_bias": 1}, "qkv_bias must be true or false, got 1"),
        ({"gelu": None}, "gelu must be 'tanh' or 'erf', got None"),
        ({"family": ["gpt2"]}, "family must be 'gpt2', got ['gpt2']"),
        (
            {"n_embd": "32", "n_head": -1},
            "n_head must be a whole number from 1 to 16777216, got -1; "
            "n_embd must be a whole number from 1 to 16777216, got '32'",
        ),
    ],
    ids=str,
)
def test_a_config_built_in_python_is_refused_with_the_same_sentences(
    changes: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ConfigError) as error:
        ModelConfig(**{**GOOD, **changes})
    assert str(error.value) == sentence
    with pytest.raises(ConfigError) as error:
        dataclasses.replace(ModelConfig(**GOOD), **changes)
    assert str(error.value) == sentence


def test_a_whole_number_for_a_dropout_is_the_same_config() -> None:
    config = ModelConfig(**GOOD, dropout=0)
    assert config == ModelConfig(**GOOD)
    assert config.to_yaml() == ModelConfig(**GOOD).to_yaml()


def test_a_number_too_long_to_be_written_is_refused_all_the_same() -> None:
    with pytest.raises(ConfigError, match=r"^here: n_layer must be .*, got a number of thousands of digits$"):
        ModelConfig.parse(text_of(n_layer="0x" + "f" * 5000), "here")


def test_a_key_that_is_no_text_is_unknown() -> None:
    with pytest.raises(ConfigError, match=r"^here: unknown key '1'; the keys are family, "):
        ModelConfig.parse(text_of() + "1: 2\n", "here")


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    path.write_text("n_layer: 0\nn_head: four\nn_emb: 32\nvocab_size: 300\nblock_size: 16\n")
    with pytest.raises(ConfigError) as error:
        ModelConfig.from_yaml(path)
    for part in ("n_layer", "n_head", "'n_embd' is missing", "'n_emb', did you mean 'n_embd'?"):
        assert part in str(error.value)


def test_a_list_of_mistakes_ends_and_the_valid_keys_are_listed_once() -> None:
    with pytest.raises(ConfigError) as error:
        ModelConfig.parse(text_of() + "".join(f"zz{i}: 1\n" for i in range(300)), "here")
    message = str(error.value)
    assert message.count("the keys are") == 1
    assert message.endswith("; and 290 more")
    assert len(message) < 600


def test_an_endless_key_is_shortened() -> None:
    with pytest.raises(ConfigError) as error:
        ModelConfig.parse(text_of(**{"x" * 100_000: 1}), "here")
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("key", ["n_layer", "vocab_size", "block_size", "n_embd", "n_head"])
def test_a_size_that_no_machine_holds_is_refused(key: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"here: {key} must be a whole number from 1 to \d+, got 1000000000$"
    ):
        ModelConfig.parse(text_of(**{key: 10**9}), "here")


def test_an_endless_value_is_shortened() -> None:
    with pytest.raises(ConfigError) as error:
        ModelConfig.parse(text_of(n_layer="x" * 100_000), "here")
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("text", "value"), [("1e-4", 1e-4), ("1E-4", 1e-4), ("5e-1", 0.5), ("1.e-1", 0.1), ("0", 0)]
)
def test_a_number_may_be_written_as_people_write_it(text: str, value: float) -> None:
    assert ModelConfig.parse(text_of(dropout=text), "here").dropout == value


def test_a_key_that_stands_twice_is_refused_with_its_line() -> None:
    text = text_of()
    sentence = f"here, line {text.count(chr(10)) + 1}: not valid YAML: the key 'n_layer' stands there twice"
    with pytest.raises(ConfigError, match=sentence):
        ModelConfig.parse(text + "n_layer: 3\n", "here")


def test_a_merge_key_works() -> None:
    data = parse_yaml("base: &base {a: 1, b: 2}\nmore:\n  <<: *base\n  b: 3\n", "here")
    assert data["more"] == {"a": 1, "b": 3}


@pytest.mark.parametrize(
    "text",
    [
        "n_layer: [1,",
        "\tn_layer: 1",
        "a: b: c",
        "a: \x00",
        "when: 2024-13-45",
        "n: " + "[" * 10_000,
        "a: !!python/name:os.system",
        'a: !!int ""',
        "a: !!bool maybe",
        "a: !!bool " + "x" * 10_000,
        "a: !!timestamp x",
        "a: !!map [a]",
        "!!map [a]",
        "a: !!float x",
        "? [a]\n: 1",
        "? {a: 1}\n: 1",
        "a: 2024-01-01 00:00:00+99:99",
    ],
)
def test_text_that_is_no_yaml_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^here(, line \d+)?: not valid YAML: .") as error:
        ModelConfig.parse(text, "here")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_many_keys_are_read_in_no_time() -> None:
    start = time.process_time()
    assert len(parse_yaml("".join(f"k{i}: 1\n" for i in range(20_000)), "here")) == 20_000
    assert time.process_time() - start < 20  # comparing each with each takes minutes


def test_a_text_longer_than_any_config_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "long.yaml"
    path.write_text("a: 1\n" * 300_000, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        ModelConfig.from_yaml(path)
    assert str(error.value) == f"{path} is longer than 1,000,000 characters, which no config is"
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pytest.raises(ConfigError, match="zero is a pipe or a device"):
        ModelConfig.from_yaml(tmp_path / "zero")


def test_a_link_to_nowhere_is_called_one(tmp_path: Path) -> None:
    (tmp_path / "link.yaml").symlink_to("nowhere.yaml")
    with pytest.raises(ConfigError) as error:
        ModelConfig.from_yaml(tmp_path / "link.yaml")
    assert str(error.value) == f"{tmp_path / 'link.yaml'} is a link to nowhere.yaml, which does not exist"


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "is empty"), ("# only a comment\n", "is empty"), ("- 1\n- 2\n", "got list"), ("hello", "got str")],
)
def test_yaml_that_is_no_mapping_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"here.*{reason}"):
        ModelConfig.parse(text, "here")


def test_a_missing_file_a_folder_and_a_binary_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml does not exist"):
        ModelConfig.from_yaml(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="is a folder, expected a YAML file"):
        ModelConfig.from_yaml(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"\x89\xff\x00\xfe")
    with pytest.raises(ConfigError, match=r"weights\.bin is no text file, expected YAML"):
        ModelConfig.from_yaml(tmp_path / "weights.bin")
    (tmp_path / "weights.bin").write_bytes(b"\x00\x01\x02")
    with pytest.raises(ConfigError, match=r"weights\.bin: not valid YAML"):
        ModelConfig.from_yaml(tmp_path / "weights.bin")
