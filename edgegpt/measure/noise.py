"""Whether a machine was quiet while it measured."""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from edgegpt.measure.machine import Machine
from edgegpt.runtime import percentile

# Share of its time that a process was ready to run while other work had its core, from which on its slow
# samples are the machine's: a wait is as long as ten tokens of a small model.
DISTURBED_PERCENT: Final = 2.0
_SPREAD: Final = 1.15  # of the rounds' medians, which on a quiet core differ by a few percent
_IDLE_LOAD: Final = 0.3  # what a machine shows that does nothing in particular
_UNTOLD: Final = "this system does not tell whether other work had the measuring process's core"


class Measured(Protocol):
    """What a process tells of its own peace, as ProcessFigures do."""

    @property
    def waited_percent(self) -> float | None:
        """Share of the time in which it was ready to run but did not; None where it is not known."""

    @property
    def round_ms(self) -> tuple[float, ...]:
        """The same thing's median time in each round."""


class Loaded(Protocol):
    """What a process tells of its load, as ProcessFigures do."""

    @property
    def load_ms(self) -> float:
        """What it took."""

    @property
    def load_waited_ms(self) -> float | None:
        """What of it was other work's; None where it is not known."""


def measured_noise(processes: Sequence[Measured], before: Machine, threads: int) -> tuple[str, ...]:
    """Why the times are not to be trusted, one sentence each; empty on a quiet machine.

    Args:
        processes: what was measured.
        before: the machine before the first of them started, so that the load is not theirs.
        threads: that they used.
    """
    return tuple(
        sentence
        for sentence in (_load(before, threads), _waited(processes), _spread(processes))
        if sentence is not None
    )


def quietness(noise: Iterable[str]) -> str:
    """What stands after `This machine` and before the reasons, of which one alone is that nobody can know."""
    return "may not have been quiet" if set(noise) == {_UNTOLD} else "was not quiet"


def _load(before: Machine, threads: int) -> str | None:
    if before.load is None or before.load + threads <= before.cores + _IDLE_LOAD:
        return None
    return (
        f"the load average was {before.load:.1f} before the start, which with {threads} measuring "
        f"{'thread' if threads == 1 else 'threads'} is more than the machine's {before.cores} cores"
    )


def load_noise(processes: Sequence[Loaded]) -> tuple[str, ...]:
    """Why load times are not to be trusted, in a sentence; empty on a quiet machine."""
    waited = sum(p.load_waited_ms or 0.0 for p in processes)
    percent = min(100.0, 100 * waited / max(sum(p.load_ms for p in processes), 1e-9))
    if percent <= DISTURBED_PERCENT:
        return ()
    return (f"while files were loaded other work had the process's core {percent:.0f} % of the time",)


def _waited(processes: Sequence[Measured]) -> str | None:
    if any(p.waited_percent is None for p in processes):
        return _UNTOLD
    waited = max((p.waited_percent or 0.0 for p in processes), default=0.0)
    if waited <= DISTURBED_PERCENT:
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
    return f"the median time wandered between {low:.3f} and {high:.3f} ms from round to round"
