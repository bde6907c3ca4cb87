"""Judge whether a figure keeps its limit when the figure is only known within an interval."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from enum import Enum
from typing import Final

AT_LEAST: Final = frozenset({"accuracy"})  # limits on the smallest allowed value; all others on the largest

# What other work on the machine can lengthen.
_TIMED: Final = frozenset({"load_ms", "ttft_ms", "token_ms", "jitter", "idle_cpu_percent"})


class Verdict(str, Enum):
    """Result for one limit."""

    KEPT = "kept"
    WITHIN_NOISE = "within noise"  # the limit is inside the interval
    BROKEN = "broken"
    NOT_MEASURED = "not measured"  # this system does not report it


@dataclass(frozen=True)
class Estimate:
    """A figure and its confidence interval; exact where low = value = high."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> "Estimate":
        """Return a figure that is counted, not measured."""
        return cls(value, value, value)


@dataclass(frozen=True)
class Row:
    """One limit of a budget, the measured figure and the verdict.

    Attributes:
        name: such as `ttft_ms.p50`.
        limit: in the unit of the name.
        estimate: the figure; None where it could not be measured.
        verdict: the result.
        of_board: whether the limit is the board's, where the budget gives none.
    """

    name: str
    limit: float
    estimate: Estimate | None
    verdict: Verdict
    of_board: bool = False

    @property
    def at_least(self) -> bool:
        """True if the limit is the smallest allowed value."""
        return self.name in AT_LEAST

    @property
    def timed(self) -> bool:
        """True if other work on the machine can change the figure."""
        return is_timed(self.name)

    @property
    def margin(self) -> float | None:
        """Distance of the figure from its limit as a share of the limit; negative where it is exceeded."""
        if self.estimate is None:
            return None
        room = self.limit - self.estimate.value
        return (-room if self.at_least else room) / self.limit


def is_timed(name: str) -> bool:
    """Return whether the limit `name` is on a time, which other work on the machine can lengthen."""
    return name.partition(".")[0] in _TIMED


def judge(estimate: Estimate | None, limit: float, *, at_least: bool = False) -> Verdict:
    """Return BROKEN only if the whole interval exceeds the limit, KEPT only if no part of it does."""
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
    """Return one row per limit, in the order of the limits; a figure that is missing was not measured."""
    made = []
    for name, limit in limits.items():
        estimate = figures.get(name)
        verdict = judge(estimate, limit, at_least=name in AT_LEAST)
        made.append(Row(name, limit, estimate, verdict, name in of_board))
    return tuple(made)


def _keeps(figure: float, limit: float, at_least: bool) -> bool:
    """Return whether a figure keeps a limit; NaN keeps none."""
    return figure >= limit if at_least else figure <= limit


def plain(value: float) -> str:
    """Return every digit of a value as a budget file takes it: `5000000`, `0.05`."""
    return f"{value:.15g}"


def rounded_up(value: float) -> str:
    """Return three digits, rounded up so that the value keeps the printed limit: `0.0515`, `5240000`."""
    return f"{Context(prec=3, rounding=ROUND_CEILING).create_decimal_from_float(value):f}"
