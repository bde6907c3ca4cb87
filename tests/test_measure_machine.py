"""The facts of the machine that a figure depends on."""

import os
from dataclasses import replace
from importlib.metadata import PackageNotFoundError

import onnxruntime as ort
import pytest

from edgegpt.measure.bandwidth import beyond_cache_bytes, read_bandwidth
from edgegpt.measure.machine import this_machine


@pytest.mark.parametrize(("quota", "cores"), [(None, 4), (1.5, 2), (0.3, 1), (9.0, 4)])
def test_available_cores_respect_affinity_and_quota(quota: float | None, cores: int) -> None:
    machine = replace(this_machine(), affinity=4, quota=quota)
    assert machine.available_cores == machine.to_json()["available_cores"] == cores


def test_the_machine_names_what_a_figure_depends_on() -> None:
    facts = this_machine()
    assert facts.cpu
    assert facts.versions.keys() == {"python", "edgegpt", "onnxruntime", "numpy"}
    if hasattr(os, "sched_getaffinity"):
        assert facts.affinity == len(os.sched_getaffinity(0))


def test_a_runtime_in_a_wheel_of_another_name_has_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_its_own(name: str) -> str:
        raise PackageNotFoundError(name)  # as with onnxruntime-gpu

    monkeypatch.setattr("edgegpt.measure.machine.version", only_its_own)
    versions = this_machine().versions
    assert (versions["onnxruntime"], versions["edgegpt"]) == (ort.__version__, "unknown")


@pytest.mark.parametrize("threads", [1, 2])
def test_bandwidth_is_of_the_buffer_that_was_asked_for(threads: int) -> None:
    measured = read_bandwidth(80_000, threads, seconds=0.0)
    assert measured.buffer_bytes == 80_000
    assert measured.bytes_per_second > 0
    assert beyond_cache_bytes() > 1_000_000
