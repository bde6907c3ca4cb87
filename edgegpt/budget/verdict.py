"""Does a figure keep its limit, when the figure itself is only known within an interval?

Nothing is measured here.

Numbers as a budget file takes them: no commas, no powers of ten.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from enum import Enum
from typing import Final

# All other limits are the largest value that is allowed.
AT_LEAST: Final = frozenset({"accuracy"})

# What other work on the machine can lengthen.
_TIMED: Final = frozenset({"load_ms", "ttft_ms", "token_ms", "jitter", "idle_cpu_percent"})


class Verdict(str, Enum):
    """What can be said of one limit."""

    KEPT = "kept"
    WITHIN_NOISE = "within noise"  # the limit lies inside the interval: neither kept nor broken for sure
    BROKEN = "broken"
    NOT_MEASURED = "not measured"  # this system does not tell


@dataclass(frozen=True)
class Estimate:
    """A figure and the interval in which the true one lies; exact where low = value = high."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> "Estimate":
        """A figure that is counted, not measured."""
        return cls(value, value, value)


@dataclass(frozen=True)
class Row:
    """One limit of a budget beside what was found.

    Attributes:
        name: as `ttft_ms.p50`.
        limit: what the budget says, in the unit of the name.
        estimate: what was found; None where it could not be measured.
        verdict: what follows.
        of_board: whether the limit is what the board has, and the budget gives none.
    """

    name: str
    limit: float
    estimate: Estimate | None
    verdict: Verdict
    of_board: bool = False

    @property
    def at_least(self) -> bool:
        """Whether the limit is the smallest value that is allowed."""
        return self.name in AT_LEAST

    @property
    def timed(self) -> bool:
        """Whether other work on the machine can have moved the figure."""
        return self.name.partition(".")[0] in _TIMED

    @property
    def margin(self) -> float | None:
        """Room between the figure and its limit as a share of the limit; negative beyond it."""
        if self.estimate is None:
            return None
        room = self.limit - self.estimate.value
        return (-room if self.at_least else room) / self.limit


def judge(estimate: Estimate | None, limit: float, *, at_least: bool = False) -> Verdict:
    """Broken only where the whole interval lies beyond the limit, kept only where none of it does."""
    if estimate is None:
        return Verdict.NOT_MEASURED
    best, worst = estimate.low, estimate.high
    if at_least:
        best, worst = worst, best
    if not _keeps(best, limit, at_least):
        return Verdict.BROKEN
    return Verdict.KEPT if _keeps(worst, limit, at_least) else Verdict.WITHIN_NOISE


def rows(
    limits: Mapping[str, float], figures: Mapping[str, Estimate | None], *, of_board: Container[str] = ()
) -> tuple[Row, ...]:
    """One row a limit, in the order of the limits; a figure that is missing was not measured."""
    made = []
    for name, limit in limits.items():
        estimate = figures.get(name)
        verdict = judge(estimate, limit, at_least=name in AT_LEAST)
        made.append(Row(name, limit, estimate, verdict, name in of_board))
    return tuple(made)


def _keeps(figure: float, limit: float, at_least: bool) -> bool:
    """NaN keeps no limit."""
    return figure >= limit if at_least else figure <= limit


def plain(value: float) -> str:
    """Every digit that was given: `5000000`, `0.05`."""
    return f"{value:.15g}"


def rounded_up(value: float) -> str:
    """Three digits, never less than the value, so that it keeps what is printed: `0.0515`, `5240000`."""
    return f"{Context(prec=3, rounding=ROUND_CEILING).create_decimal_from_float(value):f}"
