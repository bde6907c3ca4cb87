"""Facts of the machine and this process from /proc and /sys: cores, quota, memory, time waited for a core.

A system without them gives None or 0.
"""

import math
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Final

_CGROUP: Final = Path("/sys/fs/cgroup")
_ROLLUP: Final = Path("/proc/self/smaps_rollup")
_STATUS: Final = Path("/proc/self/status")
_MEMINFO: Final = Path("/proc/meminfo")
_SCHEDSTAT: Final = Path("/proc/self/schedstat")
_STAT: Final = Path("/proc/stat")
_SLICE_SECONDS: Final = 0.004  # the usual time slice of the scheduler


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's name; arm64 has numbers instead: `aarch64, implementer 0x41, part 0xd0b`.

    With several kinds of cores each part is listed; without name and numbers it is the architecture.
    """
    lines = (system_text(cpuinfo) or "").splitlines()
    if names := _values(lines, "model name"):
        return names[0]
    numbers = [
        f"{key} {' and '.join(values)}"
        for key in ("implementer", "part")
        if (values := _values(lines, f"CPU {key}"))
    ]
    return ", ".join([platform.processor() or platform.machine(), *numbers])


def allowed_cpus() -> tuple[int, ...]:
    """Return the numbers of the cores that this process may run on, ascending; all without affinity."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def cgroup_quota(proc: Path = Path("/proc/self/cgroup"), root: Path = _CGROUP) -> float | None:
    """Return the CPU time, in cores, that the control groups of this process grant; None is unlimited.

    It is the minimum of the group and its parents: cpu.max (cgroups v2), or cpu.cfs_quota_us and
    cpu.cfs_period_us (v1), https://docs.kernel.org/admin-guide/cgroup-v2.html.
    """
    limits = [_quota(group) for group in control_groups("cpu", proc, root)]
    return min((limit for limit in limits if limit is not None), default=None)


def control_groups(
    controller: str, proc: Path = Path("/proc/self/cgroup"), root: Path = _CGROUP
) -> Iterator[Path]:
    """Yield the folders of this process's control group and of its parents, of cgroups v2 and v1.

    Args:
        controller: `cpu`, `memory`, ...; v1 has a tree for each, v2 one for all.
        proc, root: the kernel's files.
    """
    for line in (system_text(proc) or "").splitlines():
        _, controllers, path = (line + "::").split(":")[:3]
        if controllers == "" or controller in controllers.split(","):
            base = root if controllers == "" else root / controller
            group = base / path.strip("/")
            # Inside a container the path may be the host's; its own group is then at the root.
            yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(base))


def available_cores(allowed: int, quota: float | None) -> int:
    """Return how many threads can run at once; a quota of 1.5 cores lets two run, not all the time."""
    return allowed if quota is None else max(1, min(allowed, math.ceil(quota)))


def system_text(path: Path) -> str | None:
    """Read a file of the kernel without surrounding white space; None if it is missing or empty."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip().strip("\0") or None
    except OSError:
        return None


@dataclass(frozen=True)
class Memory:
    """Resident bytes at one moment: rss = private + mapped.

    Attributes:
        rss_bytes: resident set size.
        private_bytes: written by this process (anonymous pages); the system cannot drop them.
        mapped_bytes: pages of files and shared memory, libraries and mapped weights; processes share
            them, and the system may drop those of files and read them again.
    """

    rss_bytes: int
    private_bytes: int
    mapped_bytes: int


def memory() -> Memory | None:
    """Return the memory of this process now, from /proc/self/smaps_rollup (proc(5)); None without it."""
    fields = _fields(_ROLLUP)
    if "Rss" not in fields or "Anonymous" not in fields:
        return None
    return Memory(fields["Rss"], fields["Anonymous"], fields["Rss"] - fields["Anonymous"])


def peak_rss_bytes() -> int | None:
    """Return the peak resident size, VmHWM of /proc/self/status; None without it.

    The peak of getrusage is inherited from the parent process, so it is not used.
    """
    return _fields(_STATUS).get("VmHWM")


def rss_bytes() -> int | None:
    """Return the resident memory of this process; None where there is no /proc/self/status.

    Cheaper than `memory`: smaps_rollup walks the page tables, 20 ms against 0.5 ms on a busy machine.
    """
    return _fields(_STATUS).get("VmRSS")


def available_memory_bytes() -> int | None:
    """Return the bytes that can be allocated without swapping, by the machine and its control groups.

    None if the system reports neither.
    """
    known = (meminfo_bytes("MemAvailable"), *map(group_free_bytes, control_groups("memory")))
    return min((n for n in known if n is not None), default=None)


def group_free_bytes(folder: Path) -> int | None:
    """Return the bytes that a control group may still allocate; None if it has no limit of its own.

    memory.max less memory.current (cgroups v2) or memory.limit_in_bytes less memory.usage_in_bytes (v1),
    plus its cached files, which the kernel drops first as in MemAvailable,
    https://docs.kernel.org/admin-guide/cgroup-v2.html.
    """
    for limit_name, used_name, total in (
        ("memory.max", "memory.current", ""),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    ):
        limit, used = (system_text(folder / name) or "" for name in (limit_name, used_name))
        if limit.isdecimal() and used.isdecimal():  # otherwise "max"
            lines = (system_text(folder / "memory.stat") or "").splitlines()
            fields = dict(line.split(" ", 1) for line in lines if " " in line)
            cached = sum(int(fields.get(f"{total}{kind}_file", 0)) for kind in ("active", "inactive"))
            return max(0, int(limit) - int(used) + cached)
    return None


def meminfo_bytes(name: str) -> int | None:
    """Return a field of /proc/meminfo, such as `MemTotal`, in bytes; None without it."""
    for line in (system_text(_MEMINFO) or "").splitlines():
        key, _, rest = line.partition(":")
        if key == name and rest.split():
            return 1024 * int(rest.split()[0])
    return None


@dataclass(frozen=True)
class Moment:
    """Counters of the system at one moment.

    Attributes:
        seconds: time of the clock.
        waited: seconds that this process's first thread has waited for a core; None if not reported.
        wanted: ticks in which any core was in use or wanted; 0 if not reported.
        stolen: ticks of `wanted` that the host of this virtual machine gave to other machines.
    """

    seconds: float
    waited: float | None
    wanted: int
    stolen: int

    def percent_since(self, before: "Moment") -> float | None:
        """Return the share of the time since `before` that was waited, in per cent; None if not reported."""
        if self.waited is None or before.waited is None:
            return None
        passed = max(self.seconds - before.seconds, 1e-9)
        # One tick may belong to the time before; it matters in a short interval.
        stolen = max(0, self.stolen - before.stolen - 1)
        share = (self.waited - before.waited) / passed + stolen / max(1, self.wanted - before.wanted)
        return min(100.0, 100 * share)


def moment() -> Moment:
    """Return the counters now."""
    return Moment(perf_counter(), waited_seconds(), *_ticks(_STAT))


def waited_seconds(schedstat: Path = _SCHEDSTAT) -> float | None:
    """Return the seconds since its start in which this process's first thread was ready and did not run.

    The kernel counts them (sched-stats). Without them it is the number of involuntary context switches
    times a time slice; None if the system counts neither.
    """
    try:
        return int(schedstat.read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        pass
    try:
        resource = import_module("resource")  # not on Windows
    except ImportError:
        return None
    taken: int = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    return taken * _SLICE_SECONDS if taken else None  # always 0 on a system that does not count them


def _values(lines: list[str], key: str) -> list[str]:
    """Return the distinct values of one key in /proc/cpuinfo."""
    pairs = (line.partition(":") for line in lines)
    return list(
        dict.fromkeys(value.strip() for name, _, value in pairs if name.strip() == key and value.strip())
    )


def _quota(folder: Path) -> float | None:
    if text := system_text(folder / "cpu.max"):
        quota, _, period = text.partition(" ")
    else:
        quota = system_text(folder / "cpu.cfs_quota_us") or ""
        period = system_text(folder / "cpu.cfs_period_us") or ""
    if quota.isdecimal() and period.isdecimal() and int(period):  # otherwise "max" or -1
        return int(quota) / int(period)
    return None


def _fields(path: Path) -> dict[str, int]:
    """Return the lines `Name:   123 kB` in bytes; empty if the file cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    words = [line.split() for line in lines]
    return {w[0].rstrip(":"): 1024 * int(w[1]) for w in words if len(w) == 3 and w[2] == "kB"}


def _ticks(stat: Path) -> tuple[int, int]:
    """Return wanted and stolen ticks, from the first line of /proc/stat (proc_stat(5)); 0 without it."""
    try:
        with stat.open(encoding="ascii", errors="replace") as file:
            _, *fields = file.readline().split()
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
    except (OSError, ValueError):
        return 0, 0
    return user + nice + system + irq + softirq + steal, steal
