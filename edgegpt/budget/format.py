"""A check as text: the same rows and remarks for the command line, pytest and the report page."""

from collections.abc import Iterable, Iterator, Sequence
from math import isinf
from typing import TYPE_CHECKING, Final

from edgegpt.budget.verdict import Estimate, Row, judge
from edgegpt.measure import noise_remark, noise_sentence

if TYPE_CHECKING:
    from edgegpt.budget.check import Check

HEADER: Final = ("limit", "allowed", "measured (95 %)", "margin", "verdict")


def sentence(row: Row) -> str:
    """Return `token_ms.p50 is 2.31 (2.25 to 2.4), the limit is 2`.

    The verdict follows in parentheses where rounding to three digits hides it.
    """
    bound = "the board's memory is" if row.of_board else "the least is" if row.at_least else "the limit is"
    hidden = "" if _printed_verdict(row) else f" ({row.verdict.value})"
    return f"{row.name} is {measured(row)}, {bound} {limit(row)}{hidden}"


def cells(row: Row) -> tuple[str, ...]:
    """Return the row of a table under HEADER."""
    allowed = f"at least {limit(row)}" if row.at_least else limit(row)
    if row.of_board:
        allowed += " (board)"
    return (row.name, allowed, measured(row), margin(row), row.verdict.value)


def limit(row: Row) -> str:
    """Return the limit with every digit: `5,000,000` or `0.9`."""
    return f"{row.limit:,.15g}"


def measured(row: Row) -> str:
    """Return the figure to three digits and its interval, if it has one; `?` is a missing upper bound."""
    if row.estimate is None:
        return "not measured"
    value, low, high = _digits(row.estimate)
    return value if value == low == high else f"{value} ({low} to {high})"


def margin(row: Row) -> str:
    """Return the margin, such as `+35%`, or `-0.05%` of a limit that is exceeded; "" if not measured."""
    if row.margin is None:
        return ""
    percent = 100 * row.margin + 0.0  # which makes -0.0 a plain 0
    return f"{percent:+,.0f}%" if abs(percent) >= 1 or not percent else f"{percent:+.1g}%"


def doubt(rows: Iterable[Row], noise: Sequence[str]) -> str:
    """Return what to append to a sentence about broken limits, where a busy machine may have broken one."""
    return noise_remark(noise) if any(row.timed for row in rows) else ""


def remarks(checked: "Check") -> Iterator[str]:
    """Return the sentences that belong below the table."""
    board = checked.budget.board
    if board is not None:
        yield f"The budget is for: {board.description}"
        if goals := board.never_measured:
            yield f"Goals that have not been measured on that board yet: {', '.join(goals)}"
    if checked.noise:
        yield f"{noise_sentence(checked.noise)}."
    for line in checked.advice:
        yield f"{line}."


def _digits(estimate: Estimate) -> tuple[str, str, str]:
    value, low, high = (_rounded(part) for part in (estimate.value, estimate.low, estimate.high))
    return value, low, "?" if isinf(estimate.high) else high


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def _printed_verdict(row: Row) -> bool:
    """Return whether the digits that are printed lead to the row's verdict."""
    if row.estimate is None:
        return True
    value, low, high = (float(text.replace("?", "inf").replace(",", "")) for text in _digits(row.estimate))
    return judge(Estimate(value, low, high), row.limit, at_least=row.at_least) is row.verdict
