"""The shipped checkpoint: what it is, and that it does what the README says it does."""

import json
import re
from functools import cache
from pathlib import Path

import pytest
from conftest import ROVER
from robot_commands import generate
from safetensors import safe_open

import edgegpt
from edgegpt.examples import read_jsonl
from edgegpt.runtime.evaluation import evaluate
from edgegpt.training.config import RunConfig
from edgegpt.training.loop import STATE
from edgegpt_export import export_checkpoint

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
RUN = RunConfig.from_yaml(Path(__file__).parents[1] / "configs" / "training" / "rover.yaml")


def test_the_repository_carries_at_most_six_megabytes_of_it() -> None:
    files = [path for path in ROVER.rglob("*") if path.is_file() and path.name != STATE]
    assert sum(path.stat().st_size for path in files) <= 6_000_000


def test_its_weights_are_stored_as_fp16() -> None:
    with safe_open(ROVER / "model.safetensors", "np") as weights:
        assert {weights.get_slice(name).get_dtype() for name in weights.keys()} == {"F16"}  # noqa: SIM118


@pytest.mark.parametrize("name", RUN.validation)
def test_its_validation_sets_are_those_of_the_generator(name: str) -> None:
    source = RUN.validation[name]
    expected = list(generate(source.split, source.examples, source.seed))
    assert read_jsonl(ROVER / "validation" / f"{name}.jsonl") == expected


@cache
def exact_match(file: Path, name: str) -> float:
    """Per cent, on one validation set."""
    pairs = read_jsonl(ROVER / "validation" / f"{name}.jsonl")
    return 100 * evaluate(edgegpt.load(file), pairs).exact_match


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN.validation)
def test_it_answers_as_well_as_the_readme_says(rover_file: Path, name: str) -> None:
    (said,) = re.findall(rf"^\| `{name}` \|.*\| ([\d.]+) % \|$", README, re.MULTILINE)
    # Another processor may round another way in a close decision.
    assert exact_match(rover_file, name) == pytest.approx(float(said), abs=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "points"), [("int8", 0.5), ("int4", 2.0)])
def test_int8_file_cost_it_few_points(
    rover_file: Path, precision: str, points: float, tmp_path: Path
) -> None:
    file = tmp_path / "rover.onnx"
    export_checkpoint(ROVER, file, precision=precision)
    for name in RUN.validation:
        assert exact_match(file, name) >= exact_match(rover_file, name) - points


def test_it_drives_turns_finds_and_declines(rover_file: Path) -> None:
    model = edgegpt.load(rover_file)
    forward = [{"action": "move", "direction": "forward", "distance_m": 2}]
    assert json.loads(model.generate("drive forward two metres").text) == {"commands": forward}
    left = [{"action": "turn", "direction": "left", "angle_deg": 90}]
    assert json.loads(model.generate("turn left 90 degrees").text) == {"commands": left}
    find = [{"action": "find", "object": "red mug"}]
    assert json.loads(model.generate("please find the red mug").text) == {"commands": find}
    assert json.loads(model.generate("what is the weather like?").text) == {"commands": []}
