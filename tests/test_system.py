"""What /proc and the control groups say of this process: cores, memory, waiting."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from edgegpt import system
from edgegpt.measure.bandwidth import beyond_cache_bytes
from edgegpt.profiling.matmul import largest_working_set_mb
from edgegpt.system import (
    Moment,
    _ticks,
    available_memory_bytes,
    cgroup_quota,
    control_groups,
    group_free_bytes,
    memory,
    peak_rss_bytes,
    waited_seconds,
)

LINUX = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux")


def group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


def process_in(folder: Path, text: str) -> Path:
    """Return the /proc/self/cgroup of a process in these groups."""
    (folder / "self").write_text(f"{text}\n")
    return folder / "self"


# Cores


def test_the_tightest_quota_of_the_groups_above_counts_in_both_versions_of_cgroups(tmp_path: Path) -> None:
    group(tmp_path / "v2", cpu__max="max 100000")
    group(tmp_path / "v2" / "robot", cpu__max="150000 100000")
    group(tmp_path / "v2" / "robot" / "node", cpu__max="400000 100000")
    assert cgroup_quota(process_in(tmp_path, "0::/robot/node"), tmp_path / "v2") == 1.5
    assert cgroup_quota(process_in(tmp_path, "0::/"), tmp_path / "v2") is None
    assert cgroup_quota(tmp_path / "none", tmp_path) is None
    group(tmp_path / "cpu" / "job", cpu__cfs_quota_us="50000", cpu__cfs_period_us="100000")
    group(tmp_path / "cpu", cpu__cfs_quota_us="-1")
    process = process_in(tmp_path, "4:memory:/x\n1:cpu,cpuacct:/job\n0::/")
    assert cgroup_quota(process, tmp_path) == 0.5


# Memory


def test_the_tightest_memory_limit_of_the_groups_above_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cached files are dropped first, as in the machine's own count."""
    stat = "anon 7\nactive_file 20000000\ninactive_file 30000000"
    group(tmp_path / "robot", memory__max="500000000", memory__current="400000000", memory__stat=stat)
    group(tmp_path / "robot" / "node", memory__max="max", memory__current="100")
    groups = list(control_groups("memory", process_in(tmp_path, "0::/robot/node"), tmp_path))
    assert [group_free_bytes(folder) for folder in groups] == [None, 150_000_000, None]
    monkeypatch.setattr(system, "control_groups", lambda _: groups)
    assert (available_memory_bytes() or 0) <= 150_000_000
    assert beyond_cache_bytes() <= 150_000_000 // 4
    assert largest_working_set_mb() <= 15


def test_a_memory_limit_of_cgroups_v1_counts_too(tmp_path: Path) -> None:
    job = tmp_path / "memory" / "job"
    group(job, memory__limit_in_bytes="300000000", memory__usage_in_bytes="350000000")
    process = process_in(tmp_path, "4:memory:/job\n1:cpu,cpuacct:/")
    groups = list(control_groups("memory", process, tmp_path))
    assert [group_free_bytes(folder) for folder in groups] == [0, None]


@LINUX
def test_resident_memory_is_private_and_mapped_together() -> None:
    before = memory()
    array = np.ones(40_000_000, np.uint8)
    after = memory()
    assert before and after  # noqa: PT018
    assert after.rss_bytes == after.private_bytes + after.mapped_bytes
    assert 39e6 < after.private_bytes - before.private_bytes < 60e6
    assert (peak_rss_bytes() or 0) >= array.nbytes


# Waiting


def test_waiting_is_the_kernels_count_and_what_the_host_took() -> None:
    start = Moment(seconds=10.0, waited=1.0, wanted=1000, stolen=50)
    assert Moment(12.0, 1.5, 1200, 50).percent_since(start) == 25
    assert Moment(12.0, 1.0, 1200, 71).percent_since(start) == 10
    assert Moment(12.0, 1.0, 1002, 51).percent_since(start) == 0  # one tick may be of before
    assert Moment(12.0, None, 1200, 50).percent_since(start) is None


@pytest.mark.parametrize(
    ("text", "ticks"),
    [
        ("cpu  100 5 20 4000 30 1 2 7 50 0\ncpu0 1 2 3\n", (135, 7)),
        ("cpu  100 5 20 4000\n", (0, 0)),
        (None, (0, 0)),
    ],
)
def test_ticks_are_read_as_the_kernel_writes_them(
    tmp_path: Path, text: str | None, ticks: tuple[int, int]
) -> None:
    if text is not None:
        (tmp_path / "stat").write_text(text)
    assert _ticks(tmp_path / "stat") == ticks


def test_waiting_is_read_from_the_schedulers_statistics(tmp_path: Path) -> None:
    (tmp_path / "schedstat").write_text("5000000000 1500000000 77\n")
    assert waited_seconds(tmp_path / "schedstat") == 1.5
    if os.name == "posix":
        assert (waited_seconds(tmp_path / "none") or 0.0) >= 0


@pytest.mark.parametrize(("taken", "seconds"), [(0, None), (3, pytest.approx(0.012)), (None, None)])
def test_without_them_lost_cores_are_counted_and_a_system_that_counts_none_is_unknown_and_not_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int | None, seconds: object
) -> None:
    used = SimpleNamespace(ru_nivcsw=taken)
    resource = None if taken is None else SimpleNamespace(RUSAGE_SELF=0, getrusage=lambda _: used)
    monkeypatch.setitem(sys.modules, "resource", resource)
    assert waited_seconds(tmp_path / "none") == seconds
