"""How much memory this process may still take."""

from pathlib import Path
from typing import Final

from edgegpt.system import control_groups, system_text

_MEMINFO: Final = Path("/proc/meminfo")


def available_memory_bytes() -> int | None:
    """What can be allocated without swapping, in the machine and in the control groups of this process.

    None where the system does not tell.
    """
    known = (meminfo_bytes("MemAvailable"), *map(group_free_bytes, control_groups("memory")))
    return min((n for n in known if n is not None), default=None)


def group_free_bytes(folder: Path) -> int | None:
    """What a control group may still take; None where it has no limit of its own.

    memory.max less memory.current (cgroups v2) or memory.limit_in_bytes less memory.usage_in_bytes (v1),
    and the cached files in it, which the kernel drops first as it does for MemAvailable,
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
    """A line of /proc/meminfo, as `MemTotal`; None where there is none."""
    for line in (system_text(_MEMINFO) or "").splitlines():
        key, _, rest = line.partition(":")
        if key == name and rest.split():
            return 1024 * int(rest.split()[0])
    return None
