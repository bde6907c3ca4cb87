"""edgegpt.config: a config is a value, and a bad one names its file, key and value."""

import dataclasses
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import jsonschema
import pytest
from json_schemas import schemas

from edgegpt.budget.budget import Budget
from edgegpt.config.model import ModelConfig
from edgegpt.config.yaml_reader import parse_yaml
from edgegpt.errors import ConfigError
from edgegpt.prediction.target import Target

CONFIGS = Path(__file__).parent.parent / "configs"
MODELS = sorted((CONFIGS / "models").glob("*.yaml"))
GOOD = {"vocab_size": 300, "block_size": 16, "n_layer": 2, "n_head": 4, "n_embd": 32}
Refused = Callable[..., AbstractContextManager[None]]


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
def test_an_unknown_key_is_refused_with_the_nearest_valid_one(
    tmp_path: Path, refused: Refused, typed: str, meant: str
) -> None:
    path = write(tmp_path, **{typed: 8})
    with refused(ConfigError, path, repr(typed), repr(meant)):
        ModelConfig.from_yaml(path)


def test_an_unknown_key_near_to_nothing_gets_the_list_of_keys(refused: Refused) -> None:
    with refused(ConfigError, "here", "zzz", "family", "vocab_size", "gelu"):
        ModelConfig.parse(text_of(zzz=1), "here")


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("n_layer", "two", "'two'"),
        ("n_layer", "2.0", "2.0"),
        ("n_layer", "0", "0"),
        ("n_layer", "1000000000", "1000000000"),
        ("n_layer", "true", "True"),
        ("n_layer", "null", "None"),
        ("n_layer", "[2]", "[2]"),
        ("vocab_size", "'300'", "'300'"),
        ("vocab_size", "1000000000", "1000000000"),
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
    tmp_path: Path, refused: Refused, key: str, value: str, shown: str
) -> None:
    path = write(tmp_path, **{key: value})
    with refused(ConfigError, path, key, shown):
        ModelConfig.from_yaml(path)


@pytest.mark.parametrize(
    ("changes", "values"),
    [
        ({"n_embd": 130}, ("n_embd", "n_head", 130, 4)),
        ({"n_layer": True}, ("n_layer", True)),
        ({"n_layer": 2.0}, ("n_layer", 2.0)),
        ({"n_head": 0}, ("n_head", 0)),
        ({"dropout": 1}, ("dropout", 1)),
        ({"dropout": False}, ("dropout", False)),
        ({"qkv_bias": 1}, ("qkv_bias", 1)),
        ({"gelu": None}, ("gelu", None)),
        ({"family": ["gpt2"]}, ("family", ["gpt2"])),
    ],
    ids=str,
)
def test_a_config_built_in_python_is_checked_as_well(
    refused: Refused, changes: dict[str, object], values: tuple[object, ...]
) -> None:
    with refused(ConfigError, *values):
        ModelConfig(**{**GOOD, **changes})  # type: ignore[arg-type]
    with refused(ConfigError, *values):
        dataclasses.replace(ModelConfig(**GOOD), **changes)  # type: ignore[arg-type]


def test_a_width_that_the_heads_do_not_divide_is_named_with_its_file(
    tmp_path: Path, refused: Refused
) -> None:
    path = write(tmp_path, n_embd=130)
    with refused(ConfigError, path, 130, 4):
        ModelConfig.from_yaml(path)


def test_a_whole_number_for_a_dropout_is_the_same_config() -> None:
    config = ModelConfig(**GOOD, dropout=0)
    assert config == ModelConfig(**GOOD)
    assert config.to_yaml() == ModelConfig(**GOOD).to_yaml()


def test_all_problems_are_reported_at_once(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "model.yaml"
    path.write_text("n_layer: 0\nn_head: four\nn_emb: 32\nvocab_size: 300\nblock_size: 16\n")
    with refused(ConfigError, path, "n_layer", "n_head", "'four'", "'n_emb'", "'n_embd'"):
        ModelConfig.from_yaml(path)


def test_a_message_has_an_end(refused: Refused) -> None:
    with pytest.raises(ConfigError) as error:
        ModelConfig.parse(text_of(**{f"n_layer{i}": 1 for i in range(300)}), "here")
    assert "290" in str(error.value)
    assert len(str(error.value)) < 1000
    for changes in ({"x" * 100_000: 1}, {"n_layer": "x" * 100_000}):
        with pytest.raises(ConfigError) as error:
            ModelConfig.parse(text_of(**changes), "here")
        assert len(str(error.value)) < 300


# YAML


@pytest.mark.parametrize(
    ("text", "value"), [("1e-4", 1e-4), ("1E-4", 1e-4), ("5e-1", 0.5), ("1.e-1", 0.1), ("0", 0)]
)
def test_a_number_may_be_written_as_people_write_it(text: str, value: float) -> None:
    assert ModelConfig.parse(text_of(dropout=text), "here").dropout == value


def test_a_duplicate_key_is_refused_with_its_line(refused: Refused) -> None:
    with refused(ConfigError, "here", "line 6", "n_layer"):
        ModelConfig.parse(text_of() + "n_layer: 3\n", "here")
    with refused(ConfigError, "here", "line 1", "n_layer"):
        ModelConfig.parse('{"n_layer": 3, "n_layer": 3}', "here")


def test_a_merge_key_works() -> None:
    data = parse_yaml("base: &base {a: 1, b: 2}\nmore:\n  <<: *base\n  b: 3\n", "here")
    assert data["more"] == {"a": 1, "b": 3}


@pytest.mark.parametrize(
    "text",
    [
        "n_layer: [1,",
        "\tn_layer: 1",
        "a: b: c",
        "when: 2024-13-45",
        "a: !!python/name:os.system",
        "a: !!float x",
        "? [a]\n: 1",
        "# only a comment\n",
        "- 1\n- 2\n",
        "hello",
    ],
)
def test_text_that_is_no_mapping_is_refused(refused: Refused, text: str) -> None:
    with refused(ConfigError, "here"):
        ModelConfig.parse(text, "here")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "weights.bin").write_bytes(b"\x89\xff\x00\xfe")
    (tmp_path / "long.yaml").write_text("a: 1\n" * 1_000_000)
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "link.yaml").symlink_to("nowhere.yaml")
    for name in ("none.yaml", "", "weights.bin", "long.yaml", "zero", "link.yaml"):
        with refused(ConfigError, tmp_path / name):
            ModelConfig.from_yaml(tmp_path / name)


def test_a_file_of_another_kind_is_called_what_it_is(refused: Refused) -> None:
    budget, profile = CONFIGS / "budgets" / "raspberry-pi-5.yaml", next((CONFIGS / "targets").iterdir())
    with refused(ConfigError, budget, "a budget", "a board profile"):
        Target.from_yaml(budget)
    with refused(ConfigError, profile, "a board profile", "a budget"):
        Budget.from_yaml(profile)


def test_a_name_alone_leads_to_the_file_in_the_repository(
    monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    monkeypatch.chdir(CONFIGS.parent)
    with refused(ConfigError, Path("configs", "budgets", "raspberry-pi-5.yaml")):
        Budget.from_yaml("raspberry-pi-5")
