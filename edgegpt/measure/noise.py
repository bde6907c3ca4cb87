"""Whether a machine was quiet while it measured."""

from collections.abc import Sequence
from typing import Final, Protocol

from edgegpt.measure.machine import Machine
from edgegpt.reply import percentile

_WAITED_PERCENT: Final = 2.0
_SPREAD: Final = 1.15  # of the rounds' medians, which on a quiet core differ by a few percent
_IDLE_LOAD: Final = 0.3  # what a machine shows that does nothing in particular


class Measured(Protocol):
    """What a process tells of its own peace, as ProcessFigures do."""

    @property
    def waited_percent(self) -> float | None:
        """Share of the time in which it was ready to run but did not; None where it is not known."""

    @property
    def round_ms(self) -> tuple[float, ...]:
        """The same thing's median time in each round."""


def noise(processes: Sequence[Measured], before: Machine, threads: int) -> tuple[str, ...]:
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


def _load(before: Machine, threads: int) -> str | None:
    if before.load is None or before.load + threads <= before.cores + _IDLE_LOAD:
        return None
    return (
        f"the load average was {before.load:.1f} before the start, which with {threads} measuring "
        f"{'thread' if threads == 1 else 'threads'} is more than the machine's {before.cores} cores"
    )


def _waited(processes: Sequence[Measured]) -> str | None:
    waited = max((p.waited_percent for p in processes if p.waited_percent is not None), default=0.0)
    if waited <= _WAITED_PERCENT:
        return None
    return f"the measuring process was ready to run but other work had its core {waited:.0f} % of the time"


def _spread(processes: Sequence[Measured]) -> str | None:
    medians = [median for process in processes for median in process.round_ms]
    low, high = percentile(medians, 0.1), percentile(medians, 0.9)
    if high <= _SPREAD * low:
        return None
    return f"the median token time wandered between {low:.3f} and {high:.3f} ms from round to round"
