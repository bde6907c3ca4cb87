"""edgegpt.prediction.target: a board profile as a file."""

from pathlib import Path
from typing import Any

import pytest
from conftest import Refused
from helpers.sample_target import TARGET, profile_file, target_here

from edgegpt.errors import ConfigError
from edgegpt.prediction.predict import caveats, is_here
from edgegpt.prediction.target import Target
from edgegpt.system import cpu_name

DUMP = TARGET.model_dump()
NODES, LOAD, ATTENTION = DUMP["nodes"], DUMP["load"], DUMP["attention"]
WRONG_BLOCK = [{**DUMP["products"][0], "block": 64}, *DUMP["products"][1:]]
FALLING = [*DUMP["streaming"][:2], {**DUMP["streaming"][2], "us_per_mb": 1.0}, *DUMP["streaming"][3:]]


def test_a_profile_survives_its_file_with_a_line_for_each_row(tmp_path: Path) -> None:
    path = profile_file(tmp_path)
    assert Target.from_yaml(path) == TARGET
    rows = [line for line in path.read_text().splitlines() if line.startswith("- {bits")]
    assert sum("us_per_million_weights" in row for row in rows) == len(TARGET.products)


def test_an_older_profile_with_the_cost_of_a_second_thread_is_read(tmp_path: Path) -> None:
    assert Target.from_yaml(profile_file(tmp_path, second_thread_us=3.2)) == TARGET


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
        ({"attention": ATTENTION[1:2]}, ["attention", 1]),
        ({"attention": ATTENTION[:1] * 2}, [1]),
        ({"streaming": DUMP["streaming"][:1]}, ["streaming", 8]),
        ({"streaming": FALLING}, ["streaming", [0.0, 20.0, 1.0]]),
    ],
)
def test_a_bad_profile_is_refused_with_key_and_value(
    tmp_path: Path, refused: Refused, changes: dict[str, Any], values: list[object]
) -> None:
    with refused(ConfigError, "profile.yaml", *values):
        Target.from_yaml(profile_file(tmp_path, **changes))


def test_another_machine_other_versions_and_a_busy_machine_give_caveats() -> None:
    here = target_here()
    assert (is_here(TARGET), is_here(here)) == (False, True)
    assert TARGET.machine.cpu in caveats(TARGET)[0]
    assert not [caveat for caveat in caveats(here) if here.machine.cpu in caveat]
    old = here.machine.model_copy(update={"versions": {"onnxruntime": "0.9"}})
    busy = here.model_copy(update={"machine": old, "noise": ["the load was 9"]})
    assert is_here(busy)
    version, noise = caveats(busy)
    assert "0.9" in version
    assert busy.noise[0] in noise


def test_a_virtual_machine_of_the_same_name_and_another_size_is_another_machine() -> None:
    one = TARGET.machine.model_copy(update={"last_level_cache_mb": 33.554432, "memory_mb": 16_384.0})
    for key, value in {"last_level_cache_mb": 105.0, "memory_mb": 8_000.0}.items():
        (difference,) = one.model_copy(update={key: value}).differences(one)
        assert difference.startswith(key)
    # What a file rounds, or a kernel takes for itself, makes no other machine; nor does what is unknown.
    again = one.model_copy(update={"last_level_cache_mb": 33.55, "memory_mb": 16_100.0})
    assert one.differences(again) == again.differences(one) == one.differences(TARGET.machine) == ()


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
