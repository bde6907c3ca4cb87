"""How long a process was ready to run and did not: other work or another virtual machine had its core."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Final

_SCHEDSTAT: Final = Path("/proc/self/schedstat")
_STAT: Final = Path("/proc/stat")
_SLICE_SECONDS: Final = 0.004  # what a thread that takes the core keeps it for, as a rule


@dataclass(frozen=True)
class Moment:
    """What the system had counted at one moment.

    Attributes:
        seconds: of the clock.
        waited: seconds of this process's first thread until then; None where the system does not tell.
        wanted: ticks of all cores in which somebody had or wanted them; 0 where it does not tell.
        stolen: ticks of those that the host of this virtual machine gave to others.
    """

    seconds: float
    waited: float | None
    wanted: int
    stolen: int

    def percent_since(self, before: "Moment") -> float | None:
        """Share of the time between two moments that was waited; None where the system does not tell."""
        if self.waited is None or before.waited is None:
            return None
        passed = max(self.seconds - before.seconds, 1e-9)
        # A tick may be of before and only counted now; it is much in a short time.
        stolen = max(0, self.stolen - before.stolen - 1)
        share = (self.waited - before.waited) / passed + stolen / max(1, self.wanted - before.wanted)
        return min(100.0, 100 * share)


def moment() -> Moment:
    """Now."""
    return Moment(perf_counter(), waited_seconds(), *_ticks(_STAT))


def waited_seconds(schedstat: Path = _SCHEDSTAT) -> float | None:
    """Seconds since its start in which this process's first thread was ready and did not run.

    The kernel counts them (sched-stats). One that does not still counts how often the core was taken
    away, of which each is a slice of time; a system that counts neither is None.
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
    return taken * _SLICE_SECONDS if taken else None  # a system that does not count them says 0 for ever


def _ticks(stat: Path) -> tuple[int, int]:
    """Wanted and stolen, from the first line of /proc/stat (proc_stat(5)); both 0 where there is none."""
    try:
        with stat.open(encoding="ascii", errors="replace") as file:
            _, *fields = file.readline().split()
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
    except (OSError, ValueError):
        return 0, 0
    return user + nice + system + irq + softirq + steal, steal
