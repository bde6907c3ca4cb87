"""Memory of this process, as Linux tells it."""

from pathlib import Path


def rss_bytes() -> int:
    """Resident memory now."""
    return _status("VmRSS")


def peak_rss_bytes() -> int:
    """The most there has been since the process began."""
    return _status("VmHWM")


def _status(name: str) -> int:
    """0 where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)
