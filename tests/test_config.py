"""edgegpt.config: a config is a value, and a bad one names its file, key and value."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from conftest import Refused
from json_schemas import schemas

from edgegpt.budget.budget import Budget
from edgegpt.config.model import ModelConfig
from edgegpt.config.yaml_reader import parse_yaml
from edgegpt.errors import ConfigError
from edgegpt.prediction.target import Target

CONFIGS = Path(__file__).parent.parent / "configs"
MODELS = {path.stem: path for path in sorted((CONFIGS / "models").glob("*.yaml"))}
GOOD: dict[str, Any] = {"vocab_size": 300, "block_size": 16, "n_layer": 2, "n_head": 4, "n_embd": 32}
HERE = ModelConfig(**GOOD)


def file_of(folder: Path, **changes: object) -> Path:
    """Write GOOD with keys changed, added or, by `...`, left out."""
    path, values = folder / "model.yaml", {**GOOD, **changes}
    path.write_text(yaml.safe_dump({key: value for key, value in values.items() if value is not ...}))
    return path


@pytest.mark.parametrize("name", MODELS)
def test_every_model_config_loads_and_survives_a_round_trip(name: str) -> None:
    config = ModelConfig.from_yaml(MODELS[name])
    assert ModelConfig.parse(config.to_yaml(), "again") == config
    assert ModelConfig.parse(config.to_json(), "again") == config
    assert parse_yaml(config.to_json(), "as YAML") == dataclasses.asdict(config)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("nano", (128, 4, 4, 512, 256, False, False)),
        ("micro", (256, 6, 8, 4096, 512, False, False)),
        ("small", (512, 8, 8, 8192, 1024, False, False)),
        ("gpt2", (768, 12, 12, 50257, 1024, True, True)),
    ],
)
def test_the_shipped_models_have_the_shapes_they_are_known_by(name: str, shape: tuple[int, ...]) -> None:
    keys = ("n_embd", "n_layer", "n_head", "vocab_size", "block_size", "tie_embeddings", "qkv_bias")
    config = ModelConfig.from_yaml(MODELS[name])
    assert tuple(getattr(config, key) for key in keys) == shape


def test_the_json_schemas_for_editors_are_up_to_date() -> None:
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in CONFIGS.glob("schemas/*.json")}
    assert on_disk == schemas(), "run `python tools/json_schemas.py`"


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*/*.yaml")), ids=lambda path: path.stem)
def test_an_editor_finds_the_schema_and_the_schema_accepts_the_config(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    schema = path.parent / text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")
    jsonschema.validate(parse_yaml(text, path.name), json.loads(schema.read_text()))


def test_a_config_is_a_hashable_value_that_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError, match="n_embd"):
        HERE.n_embd = 64  # type: ignore[misc]
    assert HERE in {ModelConfig.parse(HERE.to_yaml(), "there")}
    assert (HERE.head_dim, HERE.n_kv_head) == (8, 4)


def test_a_whole_number_for_a_dropout_is_the_same_config() -> None:
    whole = ModelConfig(**GOOD, dropout=0)
    assert (whole, whole.to_yaml()) == (HERE, HERE.to_yaml())


@pytest.mark.parametrize(
    ("changes", "values"),
    [
        ({"n_embed": 8}, ["'n_embed'", "'n_embd'"]),
        ({"nlayer": 8}, ["'nlayer'", "'n_layer'"]),
        ({"block_sise": 8}, ["'block_sise'", "'block_size'"]),
        ({"zzz": 1}, ["zzz", "family", "vocab_size", "gelu"]),  # near to nothing: the list of keys
        ({"n_layer": 0, "n_head": "four"}, ["n_layer", 0, "n_head", "'four'"]),
        ({"n_embd": ..., "n_emb": 32, "n_layer": 0}, ["'n_emb'", "'n_embd'", "n_layer", 0]),
    ],
)
def test_all_problems_of_a_file_are_named_with_the_nearest_keys(
    tmp_path: Path, refused: Refused, changes: dict[str, object], values: list[object]
) -> None:
    with refused(ConfigError, tmp_path / "model.yaml", *values):
        ModelConfig.from_yaml(file_of(tmp_path, **changes))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("n_layer", value) for value in ("two", 2.0, 0, 10**9, True, None, [2])),
        *(("vocab_size", value) for value in ("300", 10**9)),
        *(("dropout", value) for value in (1.0, 1, -0.1, float("nan"), False)),
        *(("qkv_bias", 1), ("tie_embeddings", "yes"), ("n_head", 0), ("n_embd", 130)),
        *(("gelu", value) for value in ("fast", None)),
        *(("family", value) for value in ("bert", ["gpt2"])),
    ],
)
def test_a_wrong_value_is_named_with_its_key_in_a_file_and_in_python(
    tmp_path: Path, refused: Refused, key: str, value: Any
) -> None:
    values = [key, "n_head", 130, 4] if value == 130 else [key, repr(value)]
    with refused(ConfigError, tmp_path / "model.yaml", *values):
        ModelConfig.from_yaml(file_of(tmp_path, **{key: value}))
    with refused(ConfigError, *values):
        ModelConfig(**{**GOOD, key: value})
    with refused(ConfigError, *values):
        dataclasses.replace(HERE, **{key: value})


def test_a_message_has_an_end() -> None:
    many = {f"n_layer{i}": 1 for i in range(300)}
    for changes, most in ((many, 1000), ({"x" * 100_000: 1}, 300), ({"n_layer": "x" * 100_000}, 300)):
        with pytest.raises(ConfigError) as error:
            ModelConfig.parse(yaml.safe_dump({**GOOD, **changes}), "here")
        assert len(str(error.value)) < most
        assert changes is not many or "290" in str(error.value)


# YAML


@pytest.mark.parametrize(
    ("text", "value"), [("1e-4", 1e-4), ("1E-4", 1e-4), ("5e-1", 0.5), ("1.e-1", 0.1), ("0", 0)]
)
def test_a_number_may_be_written_as_people_write_it(text: str, value: float) -> None:
    assert ModelConfig.parse(f"{yaml.safe_dump(GOOD)}dropout: {text}\n", "here").dropout == value


@pytest.mark.parametrize(
    ("text", "line"), [("a: 1\nn_layer: 3\nn_layer: 3\n", 3), ('{"n_layer": 3, "n_layer": 3}', 1)]
)
def test_a_duplicate_key_is_refused_with_its_line(refused: Refused, text: str, line: int) -> None:
    with refused(ConfigError, "here", f"line {line}", "n_layer"):
        ModelConfig.parse(text, "here")


def test_a_merge_key_works() -> None:
    data = parse_yaml("base: &base {a: 1, b: 2}\nmore:\n  <<: *base\n  b: 3\n", "here")
    assert data["more"] == {"a": 1, "b": 3}


BROKEN = ["n_layer: [1,", "\tn_layer: 1", "a: b: c", "when: 2024-13-45", "? [a]\n: 1"]
BROKEN += ["a: !!python/name:os.system", "a: !!float x", "# only a comment\n", "- 1\n- 2\n", "hello"]


@pytest.mark.parametrize("text", BROKEN)
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
