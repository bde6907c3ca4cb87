"""edgegpt.config.yaml_reader: a YAML file of another kind is called that, and a name alone is no path."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from edgegpt.budget.budget import Budget
from edgegpt.config.model import ModelConfig
from edgegpt.config.yaml_reader import KINDS, other_kind
from edgegpt.errors import ConfigError
from edgegpt.prediction.target import Target
from edgegpt.training.config import RunConfig

CONFIGS = Path(__file__).parents[1] / "configs"
FILES = {
    "Budget": "budgets/raspberry-pi-5.yaml",
    "Target": "targets/x86-xeon-sapphire-rapids.yaml",
    "ModelConfig": "models/micro.yaml",
    "RunConfig": "training/rover.yaml",
}
READERS: dict[str, Callable[[Path], object]] = {
    "Budget": Budget.from_yaml,
    "Target": Target.from_yaml,
    "ModelConfig": ModelConfig.from_yaml,
    "RunConfig": RunConfig.from_yaml,
}
KEYS = {
    **{kind.__name__: set(kind.model_fields) for kind in (Budget, Target, RunConfig)},
    "ModelConfig": {field.name for field in fields(ModelConfig)},
}


@pytest.mark.parametrize("wanted", KINDS)
def test_telling_keys_are_of_their_own_kind_and_of_no_other(wanted: str) -> None:
    _, telling = KINDS[wanted]
    assert telling <= KEYS[wanted]
    assert not any(telling & keys for kind, keys in KEYS.items() if kind != wanted)


@pytest.mark.parametrize("wanted", KINDS)
@pytest.mark.parametrize("given", KINDS)
def test_a_file_of_another_kind_is_called_what_it_is(wanted: str, given: str) -> None:
    path = CONFIGS / FILES[given]
    if given == wanted:
        READERS[wanted](path)
        return
    with pytest.raises(ConfigError) as caught:
        READERS[wanted](path)
    assert str(caught.value) == f"{path} is {KINDS[given][0].partition(' (')[0]}, not {KINDS[wanted][0]}"


def test_a_slip_makes_no_other_kind() -> None:
    assert other_kind(["name", "token_us", "machine"], "Budget") == ""
    assert other_kind(["load_ms", "n_head", "n_embd"], "Budget") == ""
    assert other_kind(["name", "token_ms"], "Target").startswith("a budget, not a profile of a board")


def test_a_name_alone_is_led_to_the_file_that_ships(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refused(name: str) -> str:
        with pytest.raises(ConfigError) as caught:
            Budget.from_yaml(name)
        return str(caught.value)

    monkeypatch.chdir(CONFIGS.parent)
    file = Path("configs", "budgets", "raspberry-pi-5.yaml")
    assert refused("raspberry-pi-5") == f"raspberry-pi-5 does not exist, did you mean {file}?"
    monkeypatch.chdir(tmp_path)
    assert refused("raspberry-pi-5").endswith("; expected the path of a YAML file, such as those in configs/")
    assert refused("mine.yaml") == "mine.yaml does not exist"
