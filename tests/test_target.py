"""edgegpt.prediction.target: a board profile as a file."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import yaml
from helpers.sample_target import TARGET

from edgegpt.errors import ConfigError
from edgegpt.measure.machine import this_machine
from edgegpt.prediction.predict import caveats, is_here
from edgegpt.prediction.target import Target, TargetMachine
from edgegpt.system import cpu_name

Refused = Callable[..., AbstractContextManager[None]]
WRONG_BLOCK = [row.model_dump() for row in TARGET.products]
WRONG_BLOCK[0]["block"] = 64
FALLING = [row.model_dump() for row in TARGET.streaming]
FALLING[2]["us_per_mb"] = 1.0
NODES, LOAD = TARGET.nodes.model_dump(), TARGET.load.model_dump()


def written(folder: Path, **changes: object) -> Path:
    path = folder / "profile.yaml"
    path.write_text(yaml.safe_dump({**TARGET.model_dump(), **changes}))
    return path


def here() -> Target:
    return TARGET.model_copy(update={"machine": TargetMachine.of(this_machine())})


def test_a_profile_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "profile.yaml"
    path.write_text(TARGET.to_yaml())
    assert Target.from_yaml(path) == TARGET


def test_a_row_of_a_table_is_a_line_of_the_file() -> None:
    lines = TARGET.to_yaml().splitlines()
    assert sum("us_per_million_weights" in line and line.startswith("- {bits") for line in lines) == 24


def test_an_older_profile_with_the_cost_of_a_second_thread_is_read(tmp_path: Path) -> None:
    assert Target.from_yaml(written(tmp_path, second_thread_us=3.2)) == TARGET


@pytest.mark.parametrize(
    ("changes", "values"),
    [
        ({"read_bandwidth": [{"working_set_mb": 1.0, "gb_s": -2.0}]}, ["gb_s", -2.0]),
        ({"threads": 0}, ["threads", 0]),
        ({"nodes": {**NODES, "gelu": {"node_us": "4 us", "us_per_1000_values": 1}}}, ["node_us", "'4 us'"]),
        ({"nodes": {**NODES, "gelus": NODES["gelu"]}}, ["'nodes.gelus'", "'gelu'"]),
        ({"load": {**LOAD, "import_ms": 1e308}}, ["load.import_ms", 1e308]),
        ({"load": {**LOAD, "import_ms": float("nan")}}, ["load.import_ms", "nan"]),
        ({"products": []}, ["products"]),
        ({"products": WRONG_BLOCK}, ["products", "block", 32]),
        ({"attention": [TARGET.attention[1].model_dump()]}, ["attention", 1]),
        ({"attention": [TARGET.attention[0].model_dump()] * 2}, [1]),
        ({"streaming": [TARGET.streaming[0].model_dump()]}, ["streaming", 8]),
        ({"streaming": FALLING}, ["streaming", [0.0, 20.0, 1.0]]),
    ],
)
def test_a_bad_profile_is_refused_with_key_and_value(
    tmp_path: Path, refused: Refused, changes: dict[str, object], values: list[object]
) -> None:
    with refused(ConfigError, "profile.yaml", *values):
        Target.from_yaml(written(tmp_path, **changes))


def test_a_profile_of_another_machine_gives_a_caveat() -> None:
    assert not is_here(TARGET)
    assert TARGET.machine.cpu in caveats(TARGET)[0]
    assert is_here(here())
    assert not [caveat for caveat in caveats(here()) if here().machine.cpu in caveat]


@pytest.mark.parametrize("change", [{"last_level_cache_mb": 105.0}, {"memory_mb": 8_000.0}])
def test_a_virtual_machine_of_the_same_name_and_another_size_is_another_machine(
    change: dict[str, float],
) -> None:
    one = TARGET.machine.model_copy(update={"last_level_cache_mb": 33.554432, "memory_mb": 16_000.0})
    (difference,) = one.model_copy(update=change).differences(one)
    assert difference.startswith(next(iter(change)))


def test_what_a_file_rounds_or_a_kernel_takes_makes_no_other_machine() -> None:
    one = TARGET.machine.model_copy(update={"last_level_cache_mb": 33.554432, "memory_mb": 16_384.0})
    again = one.model_copy(update={"last_level_cache_mb": 33.55, "memory_mb": 16_100.0})
    assert one.differences(again) == again.differences(one) == ()
    assert one.differences(TARGET.machine) == ()  # where one is unknown


def test_other_versions_and_a_busy_machine_give_caveats() -> None:
    mine = TargetMachine.of(this_machine())
    old = mine.model_copy(update={"versions": {"onnxruntime": "0.9"}})
    target = TARGET.model_copy(update={"machine": old, "noise": ["the load was 9"]})
    assert is_here(target)
    version, noise = caveats(target)
    assert "0.9" in version
    assert target.noise[0] in noise


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


SHIPPED = sorted((Path(__file__).parents[1] / "configs" / "targets").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_profile_is_read_and_was_taken_on_a_quiet_machine(path: Path) -> None:
    target = Target.from_yaml(path)
    assert target.name == path.stem
    assert not target.noise
