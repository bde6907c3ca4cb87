"""edgegpt.target: a profile as a file."""

from pathlib import Path

import pytest
import yaml
from helpers.sample_target import TARGET

from edgegpt.errors import ConfigError
from edgegpt.measure.machine import this_machine
from edgegpt.prediction.predict import caveats, is_here
from edgegpt.prediction.target import Target, TargetMachine
from edgegpt.system import cpu_name

WRONG_BLOCK = [row.model_dump() for row in TARGET.products]
WRONG_BLOCK[0]["block"] = 64


def written(folder: Path, **changes: object) -> Path:
    path = folder / "target.yaml"
    path.write_text(yaml.safe_dump({**TARGET.model_dump(), **changes}))
    return path


def here() -> Target:
    return TARGET.model_copy(update={"machine": TargetMachine.of(this_machine())})


def test_a_target_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "target.yaml"
    path.write_text(TARGET.to_yaml())
    assert Target.from_yaml(path) == TARGET


def test_a_row_of_a_table_is_a_line_of_the_file() -> None:
    lines = TARGET.to_yaml().splitlines()
    assert sum("us_per_million_weights" in line and line.startswith("- {bits") for line in lines) == 24


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"read_bandwidth": [{"working_set_mb": 1.0, "gb_s": -2.0}]},
            "gb_s must be greater than 0, got -2.0",
        ),
        ({"threads": 0}, "threads must be greater than or equal to 1, got 0"),
        ({"second_thread_us": "40 us"}, "its unit is in the key's name, got '40 us'"),
        ({"second_thread_ms": 1.0}, "unknown key 'second_thread_ms', did you mean 'second_thread_us'?"),
        (
            {"second_thread_us": 1e308},
            "second_thread_us must be less than or equal to 1000000000000, got 1e+308",
        ),
        ({"second_thread_us": float("nan")}, "second_thread_us must be a finite number, got nan"),
        ({"threads": 10**400}, "threads must be less than or equal to 1000000, got 1000"),
        ({"products": []}, "products"),
        ({"attention": [TARGET.attention[1].model_dump()]}, "attention has no row for 1 token"),
        ({"attention": [TARGET.attention[0].model_dump()] * 2}, "there are two rows for 1"),
        ({"streaming": [TARGET.streaming[0].model_dump()]}, "streaming has no row for 8 bits"),
        ({"products": WRONG_BLOCK}, "products of 32 bits have a wrong block"),
    ],
)
def test_a_bad_target_is_refused_with_key_and_value(
    tmp_path: Path, changes: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ConfigError) as e:
        Target.from_yaml(written(tmp_path, **changes))
    assert sentence in str(e.value)


def test_weights_further_away_never_cost_less(tmp_path: Path) -> None:
    rows = [row.model_dump() for row in TARGET.streaming]
    rows[2]["us_per_mb"] = 1.0
    with pytest.raises(ConfigError, match=r"must not fall as working_set_mb grows, got \[0.0, 20.0, 1.0\]"):
        Target.from_yaml(written(tmp_path, streaming=rows))


def test_a_target_of_another_machine_is_said_and_not_refused() -> None:
    assert not is_here(TARGET)
    assert "measured on another machine (cpu Hand CPU, not " in caveats(TARGET)[0]
    assert is_here(here())
    assert not [caveat for caveat in caveats(here()) if "another machine" in caveat]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"last_level_cache_mb": 105.0}, "last_level_cache_mb 105.0, not 33.6"),
        ({"memory_mb": 8_000.0}, "memory_mb 8,000.0, not 16,000.0"),
    ],
)
def test_a_virtual_machine_of_the_same_name_and_another_size_is_another_machine(
    change: dict[str, float], sentence: str
) -> None:
    one = TARGET.machine.model_copy(update={"last_level_cache_mb": 33.554432, "memory_mb": 16_000.0})
    assert one.model_copy(update=change).differences(one) == (sentence,)


def test_what_a_file_rounds_or_a_kernel_takes_makes_no_other_machine() -> None:
    one = TARGET.machine.model_copy(update={"last_level_cache_mb": 33.554432, "memory_mb": 16_384.0})
    again = one.model_copy(update={"last_level_cache_mb": 33.55, "memory_mb": 16_100.0})
    assert one.differences(again) == again.differences(one) == ()
    assert one.differences(TARGET.machine) == ()  # where one does not know


def test_arm64_processors_are_told_apart_by_their_numbers(tmp_path: Path) -> None:
    def name(*parts: str) -> str:
        path = tmp_path / "cpuinfo"
        cores = [f"processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: {part}\n" for part in parts]
        path.write_text("\n".join(cores))
        return cpu_name(path)

    assert name("0xd08").endswith(", implementer 0x41, part 0xd08")
    assert name("0xd0b", "0xd0b") != name("0xd08", "0xd08")
    assert name("0xd05", "0xd05", "0xd0b").endswith(", part 0xd05 and 0xd0b")
    assert cpu_name(tmp_path / "none")


def test_other_versions_and_a_busy_machine_are_said() -> None:
    mine = TargetMachine.of(this_machine())
    old = mine.model_copy(update={"versions": {"onnxruntime": "1.0"}})
    target = TARGET.model_copy(update={"machine": old, "noise": ["the load was 9"]})
    assert is_here(target)
    first, second = caveats(target)
    assert first.startswith("the target was measured with onnxruntime 1.0, here is ")
    assert second == "the target was measured on a busy machine: the load was 9"


SHIPPED = sorted((Path(__file__).parents[1] / "configs" / "targets").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_profile_is_read_and_was_taken_on_a_quiet_machine(path: Path) -> None:
    target = Target.from_yaml(path)
    assert target.name == path.stem
    assert not target.noise
