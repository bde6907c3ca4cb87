"""edgegpt.budget.format: what is printed of a limit never contradicts its verdict."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.sample_figures import FIGURES, MACHINE
from hypothesis import given, strategies as st

from edgegpt.budget.budget import Board, Budget
from edgegpt.budget.check import Check
from edgegpt.budget.format import HEADER, cells, doubt, limit, margin, measured, remarks, sentence
from edgegpt.budget.verdict import Estimate, Row, Verdict, judge, rows
from edgegpt.measure.machine import this_machine
from edgegpt.measure.noise import measured_noise

positive = st.floats(1e-9, 1e15)
names = st.sampled_from(["load_ms", "accuracy"])


def row(name: str, allowed: float, estimate: Estimate) -> Row:
    (made,) = rows({name: allowed}, {name: estimate})
    return made


def exact(name: str, allowed: float, value: float) -> Row:
    return row(name, allowed, Estimate.exact(value))


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (exact("artifact_mb", 8, 8.004), "artifact_mb is 8.004, the limit is 8"),
        (exact("accuracy", 0.9, 0.8996), "accuracy is 0.8996, the least is 0.9"),
        (exact("parameters", 5e6, 5_000_001), "parameters is 5,000,001, the limit is 5,000,000"),
        (exact("load_ms", 1000, 1000.2), "load_ms is 1,000.2, the limit is 1,000"),
        (exact("load_ms", 500, 999.6), "load_ms is 1,000, the limit is 500"),
        (exact("load_ms", 500, 123.456), "load_ms is 123, the limit is 500"),
        (
            row("token_ms.p50", 2, Estimate(2.31, 2.25, 2.4)),
            "token_ms.p50 is 2.31 (2.25 to 2.4), the limit is 2",
        ),
        (
            row("ttft_ms.p99", 8, Estimate(8.1, 8.004, math.inf)),
            "ttft_ms.p99 is 8.1 (8.004 to ?), the limit is 8",
        ),
        (exact("load_ms", 2, math.nan), "load_ms is nan, the limit is 2"),
    ],
)
def test_a_figure_has_as_many_digits_as_tell_it_from_its_limit(made: Row, text: str) -> None:
    assert sentence(made) == text


def number(text: str) -> float:
    return float(text.replace(",", ""))


@given(names, positive, st.one_of(positive, st.floats(1 - 1e-6, 1 + 1e-6)))
def test_what_is_printed_gives_the_same_verdict(name: str, allowed: float, value: float) -> None:
    near = value * allowed if abs(value - 1) <= 1e-6 else value
    made = exact(name, float(f"{allowed:.15g}"), near)
    printed = judge(Estimate.exact(number(measured(made))), number(limit(made)), at_least=made.at_least)
    assert printed is made.verdict


@given(names, positive, positive)
def test_a_margin_is_below_zero_in_print_exactly_beyond_the_limit(
    name: str, allowed: float, value: float
) -> None:
    made = exact(name, allowed, value)
    text = margin(made)
    assert text.startswith("-") == (made.verdict is Verdict.BROKEN)
    assert (number(text.rstrip("%")) == 0) == (allowed == value)


def test_margins_are_whole_percents_where_that_says_enough() -> None:
    assert margin(exact("load_ms", 200, 130)) == "+35%"
    assert margin(exact("load_ms", 8, 8.004)) == "-0.05%"
    assert margin(exact("load_ms", 8, 8)) == "+0%"
    assert margin(Row("load_ms", 8, None, Verdict.NOT_MEASURED)) == ""


def test_the_least_that_is_allowed_is_called_that_in_the_table() -> None:
    assert cells(exact("accuracy", 0.9, 0.95)) == ("accuracy", "at least 0.9", "0.95", "+6%", "kept")
    assert len(HEADER) == 5


def test_a_busy_machine_throws_doubt_on_times_and_not_on_what_is_counted() -> None:
    counted = [exact("parameters", 1, 2), exact("artifact_mb", 1, 2), exact("accuracy", 1, 0.5)]
    timed = exact("token_ms.p99", 1, 2)
    assert doubt(counted, ["the load was 9"]) == ""
    assert doubt([*counted, timed], ["the load was 9"]) == " (this machine was not quiet while it measured)"
    assert doubt([timed], []) == ""


def test_below_the_table_stand_the_board_its_goals_the_noise_and_advice() -> None:
    board = Board(description="A robot's board", never_measured=["load_ms"])
    budget = Budget(name="b", load_ms=1.0, board=board)
    checked = Check(
        Path("x.onnx"), budget, 1, this_machine(), 6, (), ("the load was 9", "a core was shared"), ("more",)
    )
    assert list(remarks(checked)) == [
        "The budget is for: A robot's board",
        "Goals that nobody has measured on that board yet: load_ms",
        "This machine was not quiet, so its times are upper bounds: the load was 9; a core was shared.",
        "more.",
    ]
    (unknown,) = measured_noise([replace(FIGURES, waited_percent=None)], MACHINE, 1)
    assert list(remarks(replace(checked, noise=(unknown,))))[2] == (
        f"This machine may not have been quiet, so its times are upper bounds: {unknown}."
    )
    assert "may not have been quiet" in doubt([exact("load_ms", 1, 2)], [unknown])
    quiet = replace(checked, budget=Budget(name="b", load_ms=1.0), noise=(), advice=())
    assert list(remarks(quiet)) == []
