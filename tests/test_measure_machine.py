"""Counted facts of the machine and its memory."""

import os
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from edgegpt import system
from edgegpt.measure.bandwidth import beyond_cache_bytes, read_bandwidth
from edgegpt.measure.machine import available_memory_bytes, cgroup_quota, this_machine
from edgegpt.profiling.matmul import largest_working_set_mb
from edgegpt.system import control_groups, group_free_bytes, memory, peak_rss_bytes

LINUX = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux tells")


# The machine


def group(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_the_tightest_quota_of_the_groups_above_counts(tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    group(root, "cpu.max", "max 100000\n")
    group(root / "robot", "cpu.max", "150000 100000\n")
    group(root / "robot" / "node", "cpu.max", "400000 100000\n")
    proc = tmp_path / "self"
    proc.write_text("0::/robot/node\n")
    assert cgroup_quota(proc, root) == 1.5
    proc.write_text("0::/\n")
    assert cgroup_quota(proc, root) is None


def test_a_quota_of_the_first_cgroups_counts_too(tmp_path: Path) -> None:
    group(tmp_path / "cpu" / "job", "cpu.cfs_quota_us", "50000\n")
    group(tmp_path / "cpu" / "job", "cpu.cfs_period_us", "100000\n")
    group(tmp_path / "cpu", "cpu.cfs_quota_us", "-1\n")
    proc = tmp_path / "self"
    proc.write_text("4:memory:/x\n1:cpu,cpuacct:/job\n0::/\n")
    assert cgroup_quota(proc, tmp_path) == 0.5


def test_the_tightest_memory_limit_of_the_groups_above_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is cached of files is dropped first, as in the machine's own count."""
    group(tmp_path / "robot", "memory.max", "500000000\n")
    group(tmp_path / "robot", "memory.current", "400000000\n")
    group(tmp_path / "robot", "memory.stat", "anon 7\nactive_file 20000000\ninactive_file 30000000\n")
    group(tmp_path / "robot" / "node", "memory.max", "max\n")
    group(tmp_path / "robot" / "node", "memory.current", "100\n")
    proc = tmp_path / "self"
    proc.write_text("0::/robot/node\n")
    groups = list(control_groups("memory", proc, tmp_path))
    assert [group_free_bytes(folder) for folder in groups] == [None, 150_000_000, None]
    monkeypatch.setattr(system, "control_groups", lambda _: groups)
    assert (available_memory_bytes() or 0) <= 150_000_000
    assert beyond_cache_bytes() <= 150_000_000 // 4
    assert largest_working_set_mb() <= 15


def test_a_memory_limit_of_the_first_cgroups_counts_too(tmp_path: Path) -> None:
    group(tmp_path / "memory" / "job", "memory.limit_in_bytes", "300000000\n")
    group(tmp_path / "memory" / "job", "memory.usage_in_bytes", "350000000\n")
    proc = tmp_path / "self"
    proc.write_text("4:memory:/job\n1:cpu,cpuacct:/\n")
    groups = list(control_groups("memory", proc, tmp_path))
    assert [group_free_bytes(folder) for folder in groups] == [0, None]


def test_without_cgroups_there_is_no_quota(tmp_path: Path) -> None:
    assert cgroup_quota(tmp_path / "none", tmp_path) is None


@pytest.mark.parametrize(("quota", "cores"), [(None, 4), (1.5, 2), (0.3, 1), (9.0, 4)])
def test_available_cores_respect_affinity_and_quota(quota: float | None, cores: int) -> None:
    assert replace(this_machine(), affinity=4, quota=quota).available_cores == cores


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
    assert versions["onnxruntime"] == ort.__version__
    assert versions["edgegpt"] == "unknown"


def test_bandwidth_says_what_it_read() -> None:
    for threads in (1, 2):
        measured = read_bandwidth(80_000, threads, seconds=0.0)
        assert measured.buffer_bytes == 80_000
        assert measured.bytes_per_second > 0
    assert beyond_cache_bytes() > 1_000_000


# Memory


@LINUX
def test_resident_memory_is_private_and_mapped_together() -> None:
    before = memory()
    array = np.ones(40_000_000, np.uint8)
    after = memory()
    assert before is not None
    assert after is not None
    assert after.rss_bytes == after.private_bytes + after.mapped_bytes
    assert 39e6 < after.private_bytes - before.private_bytes < 60e6
    assert (peak_rss_bytes() or 0) >= array.nbytes
