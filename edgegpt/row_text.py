"""A row of a budget's table in words, and what it was measured with."""

from collections.abc import Mapping
from math import isinf

from edgegpt.verdict import Row


def sentence(row: Row) -> str:
    """`token_ms.p50 is 2.31 (2.25 to 2.4), the limit is 2`."""
    bound = "the least is" if row.at_least else "the limit is"
    return f"{row.name} is {measured(row)}, {bound} {limit(row)}"


def limit(row: Row) -> str:
    """As people write it: `5,000,000` or `0.9`."""
    return f"{row.limit:,.12g}"


def measured(row: Row) -> str:
    """The figure and its interval, where it has one; `?` for a bound that more samples would give."""
    estimate = row.estimate
    if estimate is None:
        return "not measured"
    value, low = _number(estimate.value), _number(estimate.low)
    high = "?" if isinf(estimate.high) else _number(estimate.high)
    return value if value == low == high else f"{value} ({low} to {high})"


def margin(row: Row) -> str:
    """`+35%` of room, or how far beyond."""
    return "" if row.margin is None else f"{row.margin:+,.0%}"


def threads_text(n: int) -> str:
    """`1 thread` or `2 threads`."""
    return "1 thread" if n == 1 else f"{n} threads"


def versions_text(versions: Mapping[str, str]) -> str:
    """`python 3.11.7, onnxruntime 1.32.0`."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) < 1e-6:
        return "0"
    return f"{value:.3g}" if abs(value) >= 0.1 else f"{value:.2g}"
