"""What is printed of a limit never contradicts its verdict."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.sample_figures import MACHINE
from hypothesis import given, strategies as st

from edgegpt.budget import (
    HEADER,
    Budget,
    Check,
    Estimate,
    Row,
    Verdict,
    cells,
    doubt,
    remarks,
    rows,
    sentence,
)
from edgegpt.budget.budget import Board
from edgegpt.budget.format import limit, margin, measured
from edgegpt.budget.verdict import judge

positive = st.floats(1e-9, 1e15)
near = st.floats(1 - 1e-6, 1 + 1e-6)
names = st.sampled_from(["load_ms", "accuracy"])


def row(name: str, allowed: float, value: float, low: float | None = None, high: float | None = None) -> Row:
    """Return the row of an exact figure, or of one within an interval."""
    estimate = Estimate(value, value if low is None else low, value if high is None else high)
    return rows({name: allowed}, {name: estimate})[0]


TWO_ENDS = ("token_ms.p50", "2.3", "2.31 (2.25 to 2.4)", "-0.6%", "within noise")
NO_END = ("ttft_ms.p99", "8", "8.1 (8 to ?)", "-1%", "broken")


def number(text: str) -> float:
    return float(text.replace(",", ""))


@given(names, positive, st.booleans(), st.lists(st.one_of(positive, near), min_size=3, max_size=3))
def test_what_is_printed_gives_the_same_verdict(
    name: str, allowed: float, exact: bool, ends: list[float]
) -> None:
    """By its digits, or where three of them look like another verdict by the verdict's word."""
    allowed = float(f"{allowed:.15g}")
    low, value, high = sorted(allowed * end if abs(end - 1) <= 1e-6 else end for end in ends)
    made = row(name, allowed, value) if exact else row(name, allowed, value, low, high)
    first, _, interval = measured(made).partition(" (")
    parts = [number(part) for part in (interval.rstrip(")").split(" to ") if interval else [first, first])]
    printed = judge(Estimate(number(first), *parts), number(limit(made)), at_least=made.at_least)
    assert printed is made.verdict or sentence(made).endswith(f"({made.verdict.value})")


@given(names, positive, positive)
def test_a_printed_margin_is_negative_exactly_where_the_limit_is_broken_and_never_rounded_to_nothing(
    name: str, allowed: float, value: float
) -> None:
    made = row(name, allowed, value)
    text = margin(made)
    assert text.startswith("-") == (made.verdict is Verdict.BROKEN)
    assert (number(text.rstrip("%")) == 0) == (allowed == value)


@pytest.mark.parametrize(
    ("made", "printed"),
    [
        (row("load_ms", 500, 123.456), ("load_ms", "500", "123", "+75%", "kept")),
        (row("parameters", 5e6, 5_000_001), ("parameters", "5,000,000", "5,000,001", "-2e-05%", "broken")),
        (row("token_ms.p50", 2.3, 2.314, 2.249, 2.4), TWO_ENDS),
        (row("ttft_ms.p99", 8, 8.1, 8.004, math.inf), NO_END),
        (row("load_ms", 8, 8.004), ("load_ms", "8", "8", "-0.05%", "broken")),
        (row("load_ms", 8, 8), ("load_ms", "8", "8", "+0%", "kept")),
        (row("accuracy", 0.9, 0.95), ("accuracy", "at least 0.9", "0.95", "+6%", "kept")),
        (Row("load_ms", 8, None, Verdict.NOT_MEASURED), ("load_ms", "8", "not measured", "", "not measured")),
        (
            replace(row("peak_rss_mb", 60, 84), of_board=True),
            ("peak_rss_mb", "60 (board)", "84", "-40%", "broken"),
        ),
    ],
)
def test_the_cells_of_a_row_are_name_limit_figure_margin_and_verdict(
    made: Row, printed: tuple[str, ...]
) -> None:
    assert cells(made) == printed
    assert len(HEADER) == len(printed)


@pytest.mark.parametrize(
    ("broken", "noise", "said"),
    [
        ("parameters artifact_mb accuracy", ["the load was 9"], False),
        ("parameters token_ms.p99", ["the load was 9"], True),
        ("token_ms.p99", [], False),
    ],
)
def test_a_busy_machine_throws_doubt_on_times_and_not_on_what_is_counted(
    broken: str, noise: list[str], said: bool
) -> None:
    assert bool(doubt([row(name, 1, 2) for name in broken.split()], noise)) == said


def test_below_the_table_are_the_board_its_goals_the_noise_and_advice() -> None:
    board = Board(description="A robot's board", never_measured=["load_ms"])
    budget = Budget(name="b", load_ms=1.0, board=board)
    checked = Check(Path("x.onnx"), budget, 1, MACHINE, 6, (), ("load 9", "wait 8 %"), ("more",))
    described, goals, noise, advice = remarks(checked)
    assert "A robot's board" in described
    assert "load_ms" in goals
    assert "load 9" in noise
    assert "wait 8 %" in noise
    assert advice == "more."
    quiet = replace(checked, budget=Budget(name="b", load_ms=1.0), noise=(), advice=())
    assert list(remarks(quiet)) == []
