"""Resident memory of this process, as Linux counts it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ROLLUP: Final = Path("/proc/self/smaps_rollup")
_STATUS: Final = Path("/proc/self/status")


@dataclass(frozen=True)
class Memory:
    """Resident bytes at one moment: rss = private + mapped.

    Attributes:
        rss_bytes: all that is in memory.
        private_bytes: written by this process (anonymous pages); the system cannot drop them.
        mapped_bytes: pages of files and shared memory, libraries and mapped weights; the system may
            drop those of files and read them again, and processes share them.
    """

    rss_bytes: int
    private_bytes: int
    mapped_bytes: int


def memory() -> Memory | None:
    """This process now, from /proc/self/smaps_rollup (proc(5)); None where there is none."""
    fields = _fields(_ROLLUP)
    if "Rss" not in fields or "Anonymous" not in fields:
        return None
    return Memory(fields["Rss"], fields["Anonymous"], fields["Rss"] - fields["Anonymous"])


def peak_rss_bytes() -> int | None:
    """The most that was ever resident, VmHWM of /proc/self/status; None where there is none.

    Not getrusage: its peak is inherited from the process that started this one.
    """
    return _fields(_STATUS).get("VmHWM")


def _fields(path: Path) -> dict[str, int]:
    """The lines `Name:   123 kB` in bytes; empty where the file cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    words = [line.split() for line in lines]
    return {w[0].rstrip(":"): 1024 * int(w[1]) for w in words if len(w) == 3 and w[2] == "kB"}
