"""Find out whether other work disturbed a measurement, and report it where it matters.

Other work only ever lengthens a time. So a reason for doubt is recorded only where it can change what a
reader concludes, and every command reports it in the same sentence:

- A limit (`check`, the pytest plugin, `plan`): where a limit on a time is broken or within noise. A limit
  that was kept on a busy machine is kept on a quiet one. There each wait above DISTURBED_PERCENT counts,
  since from then on slow samples no longer break a limit (edgegpt.budget.estimates).
- A figure (`bench`, `report`, `tune`, `profile`): where lost time can move a median or a p99 out of its
  interval. A wait lasts about as long as four decode steps of a small model, so only waits of more than
  FIGURE_PERCENT of the measured time hit more than the one sample in a hundred that a p99 rests on, or
  move a median by more than processes differ. A load is measured once per process and varies more:
  LOAD_PERCENT. A median that differs by more than _SPREAD between rounds has moved already.
- The load average alone is not a reason: the other work may run on other cores, or be over. It is a reason
  only next to a wait, or where waits are not fully known: on a system that does not count them, and with
  several threads, as only the first thread's are counted.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from edgegpt.measure.machine import Machine
from edgegpt.runtime import percentile

DISTURBED_PERCENT: Final = 2.0  # share of time waited; above it slow samples are the machine's
FIGURE_PERCENT: Final = 5.0
LOAD_PERCENT: Final = 10.0
_SPREAD: Final = 1.15  # ratio of the rounds' medians, which on a quiet core differ by a few percent
_IDLE_LOAD: Final = 0.3  # load average of an idle machine
_UNKNOWN: Final = "this system does not count how long other work had the measuring process's core"


class Measured(Protocol):
    """Scheduling statistics of one process, as in ProcessResult."""

    @property
    def waited_percent(self) -> float | None:
        """Share of its time in which it was ready to run but did not; None where it is not known."""

    @property
    def round_ms(self) -> tuple[float, ...]:
        """Median time of the same work in each round, in milliseconds."""


class Loaded(Protocol):
    """Scheduling statistics of one load, as in ProcessResult."""

    @property
    def load_ms(self) -> float:
        """Load time in milliseconds."""

    @property
    def load_waited_ms(self) -> float | None:
        """Part of the load time in which other work had the core, in milliseconds; None if not known."""


def measured_noise(
    processes: Sequence[Measured], before: Machine, threads: int, *, least_percent: float = FIGURE_PERCENT
) -> tuple[str, ...]:
    """Return the reasons to doubt the times, one clause each; empty where they can be trusted.

    Args:
        processes: the measured processes.
        before: the machine before the first of them started, so that its load is not theirs.
        threads: number of threads that each of them used.
        least_percent: percentage of a process's time above which its waiting counts.
    """
    waited = _waited(processes, least_percent)
    load = _load(before, threads) if waited or threads > 1 else None
    return tuple(reason for reason in (load, waited, _spread(processes)) if reason)


def load_noise(processes: Sequence[Loaded], *, least_percent: float = LOAD_PERCENT) -> tuple[str, ...]:
    """Return the reason to doubt load times, if processes waited for more than `least_percent` of them."""
    waited = sum(p.load_waited_ms or 0.0 for p in processes)
    percent = min(100.0, 100 * waited / max(sum(p.load_ms for p in processes), 1e-9))
    if percent <= least_percent:
        return ()
    return (f"while files were loaded, other work had the process's core {percent:.0f} % of the time",)


def noise_sentence(noise: Sequence[str], effect: str = "its times are upper bounds") -> str:
    """Return the sentence for a noisy machine, without a full stop; "" where `noise` is empty.

    Args:
        noise: the reasons, as `measured_noise` and `load_noise` give them.
        effect: consequence for the reader.
    """
    reasons = "; ".join(noise)
    return f"This machine {_state(noise)}, so {effect}: {reasons}" if reasons else ""


def noise_remark(noise: Sequence[str]) -> str:
    """Return the suffix of a sentence about times, " (this machine ...)"; "" where `noise` is empty."""
    return f" (this machine {_state(noise)} while it measured)" if noise else ""


def _state(noise: Sequence[str]) -> str:
    return "may not have been quiet" if set(noise) == {_UNKNOWN} else "was not quiet"


def _load(before: Machine, threads: int) -> str | None:
    if before.load is None or before.load + threads <= before.cores + _IDLE_LOAD:
        return None
    return (
        f"the load average was {before.load:.1f} before the start, which with {threads} measuring "
        f"{'thread' if threads == 1 else 'threads'} is more than the machine's {before.cores} cores"
    )


def _waited(processes: Sequence[Measured], least_percent: float) -> str | None:
    if any(p.waited_percent is None for p in processes):
        return _UNKNOWN
    waited = max((p.waited_percent or 0.0 for p in processes), default=0.0)
    if waited <= least_percent:
        return None
    return (
        "the measuring process was ready to run but other work or another virtual machine had its core "
        f"{waited:.0f} % of the time"
    )


def _spread(processes: Sequence[Measured]) -> str | None:
    medians = [median for process in processes for median in process.round_ms]
    low, high = percentile(medians, 0.1), percentile(medians, 0.9)
    if high <= _SPREAD * low:
        return None
    return f"the median time varied between {low:.3f} and {high:.3f} ms from round to round"
