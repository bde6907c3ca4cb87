"""A budget's rows in words, and what was said and meant while they were measured: the same everywhere."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from math import isinf
from typing import TYPE_CHECKING, Final

from edgegpt.budget.verdict import Row
from edgegpt.measure import quietness

if TYPE_CHECKING:
    from edgegpt.budget.check import Check

HEADER: Final = ("limit", "allowed", "measured (95 %)", "margin", "verdict")


def sentence(row: Row) -> str:
    """`token_ms.p50 is 2.31 (2.25 to 2.4), the limit is 2`."""
    if row.of_board:
        return f"{row.name} is {measured(row)}, the board's memory is {limit(row)}"
    bound = "the least is" if row.at_least else "the limit is"
    return f"{row.name} is {measured(row)}, {bound} {limit(row)}"


def cells(row: Row) -> tuple[str, ...]:
    """The row of a table under HEADER."""
    allowed = f"at least {limit(row)}" if row.at_least else limit(row)
    if row.of_board:
        allowed += " (board)"
    return (row.name, allowed, measured(row), margin(row), row.verdict.value)


def limit(row: Row) -> str:
    """As people write it: `5,000,000` or `0.9`."""
    return f"{row.limit:,.15g}"


def measured(row: Row) -> str:
    """The figure and its interval, where it has one; `?` for a bound that more samples would give.

    Three digits, and as many more as it takes to see on which side of the limit each lies.
    """
    estimate = row.estimate
    if estimate is None:
        return "not measured"
    value, low = _number(estimate.value, row.limit), _number(estimate.low, row.limit)
    high = "?" if isinf(estimate.high) else _number(estimate.high, row.limit)
    return value if value == low == high else f"{value} ({low} to {high})"


def margin(row: Row) -> str:
    """`+35%` of room, or how far beyond; never rounded to nothing."""
    if row.margin is None:
        return ""
    percent = 100 * row.margin + 0.0  # which makes -0.0 a plain 0
    decimals = next(n for n in count() if round(percent, n) or not percent)
    return f"{percent:+,.{decimals}f}%"


def doubt(rows: Iterable[Row], noise: Sequence[str]) -> str:
    """What a sentence about broken limits ends in, where a busy machine may have broken one."""
    busy = bool(noise) and any(row.timed for row in rows)
    return f" (this machine {quietness(noise)} while it measured)" if busy else ""


def remarks(checked: "Check") -> Iterator[str]:
    """What stands below the table, a sentence each."""
    board = checked.budget.board
    if board is not None:
        yield f"The budget is for: {board.description}"
        if goals := board.never_measured:
            yield f"Goals that nobody has measured on that board yet: {', '.join(goals)}"
    if checked.noise:
        reasons = "; ".join(checked.noise)
        yield f"This machine {quietness(checked.noise)}, so its times are upper bounds: {reasons}."
    for line in checked.advice:
        yield f"{line}."


def threads_text(n: int) -> str:
    """`1 thread` or `2 threads`."""
    return "1 thread" if n == 1 else f"{n} threads"


def versions_text(versions: Mapping[str, str]) -> str:
    """`python 3.11.7, onnxruntime 1.32.0`."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _number(value: float, beside: float) -> str:
    texts = (_rounded(value, more) for more in count())
    return next(text for text in texts if _side(float(text.replace(",", "")), beside) == _side(value, beside))


def _rounded(value: float, more: int) -> str:
    """Three digits and `more`; below a tenth one less."""
    size = abs(value)
    if size >= 999.5:
        return f"{value:,.{more}f}"
    if size < 1e-6 and not more:
        return "0"
    return f"{value:.{more + (3 if size >= 0.1 else 2)}g}"


def _side(value: float, of: float) -> tuple[bool, bool]:
    return value < of, value > of
