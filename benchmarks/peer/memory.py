"""Memory of this process as Linux counts it."""

from pathlib import Path

_KEYS = {"VmRSS": "rss", "RssAnon": "private", "RssFile": "mapped", "VmHWM": "peak"}


def memory_mb() -> dict[str, float]:
    """Megabytes (1e6 bytes) in use: rss = private + mapped, and the peak of rss so far."""
    return parse_status(Path("/proc/self/status").read_text())


def parse_status(text: str) -> dict[str, float]:
    """The same from the text of a /proc/PID/status, whose kB are 1,024 bytes."""
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name: int(lines[key].split()[0]) * 1024 / 1e6 for key, name in _KEYS.items() if key in lines}
