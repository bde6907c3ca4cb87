"""Facts of this machine: processor, cores that this process may use, versions, load."""

import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from edgegpt.system import (
    allowed_cpus,
    available_cores,
    cgroup_quota,
    cpu_name,
    meminfo_bytes,
    system_text,
)

_CPU0: Final = Path("/sys/devices/system/cpu/cpu0")
_UNITS: Final = {"K": 1024, "M": 1024**2, "G": 1024**3}


@dataclass(frozen=True)
class Machine:
    """Facts of a machine, to publish with a figure; None for one that the system does not report.

    Attributes:
        cpu: the processor's name; arm64 has its maker's and part's numbers instead.
        board: the board's name, where the system has one (device tree).
        architecture: such as `x86_64` or `aarch64`.
        system: name and release of the operating system.
        cores: number of cores of the machine.
        affinity: number of cores that this process may run on.
        quota: CPU time that its control group grants, in cores; None if it is not limited.
        load: the one-minute load average.
        governor: frequency-scaling governor, such as `performance` or `powersave`.
        last_level_cache_bytes: size of the first core's last-level cache.
        memory_bytes: size of the machine's memory.
        versions: versions of Python and of the packages that a time depends on.
    """

    cpu: str
    board: str | None
    architecture: str
    system: str
    cores: int
    affinity: int
    quota: float | None
    load: float | None
    governor: str | None
    last_level_cache_bytes: int | None
    memory_bytes: int | None
    versions: dict[str, str]

    @property
    def available_cores(self) -> int:
        """Number of threads that can run at the same time; a quota of 1.5 cores counts as two."""
        return available_cores(self.affinity, self.quota)

    def to_json(self) -> dict[str, Any]:
        """Return the facts by name, `available_cores` among them."""
        return {**asdict(self), "available_cores": self.available_cores}


def threads_text(n: int) -> str:
    """Return `1 thread` or `2 threads`."""
    return "1 thread" if n == 1 else f"{n} threads"


def versions_text(versions: Mapping[str, str]) -> str:
    """Return `python 3.11.7, onnxruntime 1.32.0`."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def this_machine() -> Machine:
    """Return the facts of this machine, its load as of now."""
    return Machine(
        cpu=cpu_name(),
        board=system_text(Path("/proc/device-tree/model")),
        architecture=platform.machine(),
        system=f"{platform.system()} {platform.release()}",
        cores=os.cpu_count() or 1,
        affinity=len(allowed_cpus()),
        quota=cgroup_quota(),
        load=load_average(),
        governor=system_text(_CPU0 / "cpufreq" / "scaling_governor"),
        last_level_cache_bytes=last_level_cache_bytes(),
        memory_bytes=meminfo_bytes("MemTotal"),
        versions={"python": platform.python_version(), **_package_versions()},
    )


def load_average() -> float | None:
    """Return the load average of the last minute; None where the system has none."""
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):  # AttributeError: Windows
        return None


def last_level_cache_bytes() -> int | None:
    """Return the size of the first core's largest cache, which other cores may share; None if unknown."""
    sizes = [_size(system_text(path)) for path in _CPU0.glob("cache/index*/size")]
    return max((size for size in sizes if size is not None), default=None)


def _size(text: str | None) -> int | None:
    """Return a size such as `2048K` in bytes."""
    if text and text[:-1].isdecimal() and text[-1] in _UNITS:
        return int(text[:-1]) * _UNITS[text[-1]]
    return None


def _package_versions() -> dict[str, str]:
    return {name: _package_version(name) for name in ("edgegpt", "onnxruntime", "numpy")}


def _package_version(name: str) -> str:
    try:
        return version("edgegpt-robot" if name == "edgegpt" else name)
    except PackageNotFoundError:
        if name == "edgegpt":  # run from its source without being installed
            return "unknown"
        return str(import_module(name).__version__)  # a wheel of another name, such as onnxruntime-gpu
