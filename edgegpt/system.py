"""Which processor this is, and how much of it this process may use."""

import math
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_CGROUP: Final = Path("/sys/fs/cgroup")


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name; arm64 has numbers instead: `aarch64, implementer 0x41, part 0xd0b`.

    Of several kinds of cores each part is listed; a system that tells neither leaves the architecture.
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
    """Numbers of the cores that this process may run on, ascending; all where the system has no affinity."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def cgroup_quota(proc: Path = Path("/proc/self/cgroup"), root: Path = _CGROUP) -> float | None:
    """Cores' worth of CPU time that the control groups of this process grant; None is unlimited.

    The tightest of the group and those above it counts: cpu.max (cgroups v2), or cpu.cfs_quota_us and
    cpu.cfs_period_us (v1), https://docs.kernel.org/admin-guide/cgroup-v2.html.
    """
    limits = [_quota(group) for group in control_groups("cpu", proc, root)]
    return min((limit for limit in limits if limit is not None), default=None)


def control_groups(
    controller: str, proc: Path = Path("/proc/self/cgroup"), root: Path = _CGROUP
) -> Iterator[Path]:
    """The folders of this process's control group and of those above it, of cgroups v2 and of v1.

    Args:
        controller: as `cpu` or `memory`; v1 has a tree for each, v2 one for all.
        proc, root: where the kernel tells.
    """
    for line in (system_text(proc) or "").splitlines():
        _, controllers, path = (line + "::").split(":")[:3]
        if controllers == "" or controller in controllers.split(","):
            base = root if controllers == "" else root / controller
            group = base / path.strip("/")
            # Inside a container the path may be the host's; its own group is then at the root.
            yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(base))


def available_cores(allowed: int, quota: float | None) -> int:
    """Threads that can run at the same time; a quota of 1.5 cores lets two run, in turns."""
    return allowed if quota is None else max(1, min(allowed, math.ceil(quota)))


def system_text(path: Path) -> str | None:
    """A file of the kernel's without the white space around it; None where it is missing or empty."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip().strip("\0") or None
    except OSError:
        return None


def _values(lines: list[str], key: str) -> list[str]:
    """What /proc/cpuinfo says of the cores under one key, each once."""
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
