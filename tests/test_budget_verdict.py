"""A limit is broken only if the whole interval exceeds it."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from edgegpt.budget.verdict import AT_LEAST, Estimate, Row, Verdict, judge, rows

positive = st.floats(1e-6, 1e9)


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    low, value, high = sorted(draw(st.tuples(positive, positive, positive)))
    return Estimate(value, low, high)


@given(estimates(), positive)
def test_broken_means_that_even_the_best_end_exceeds_the_limit(estimate: Estimate, limit: float) -> None:
    assert (judge(estimate, limit) is Verdict.BROKEN) == (estimate.low > limit)
    assert (judge(estimate, limit, at_least=True) is Verdict.BROKEN) == (estimate.high < limit)


@given(estimates(), positive)
def test_kept_means_that_even_the_worst_end_is_not(estimate: Estimate, limit: float) -> None:
    assert (judge(estimate, limit) is Verdict.KEPT) == (estimate.high <= limit)
    assert (judge(estimate, limit, at_least=True) is Verdict.KEPT) == (estimate.low >= limit)


@given(positive, positive, st.booleans())
def test_an_exact_figure_is_never_within_noise(value: float, limit: float, at_least: bool) -> None:
    assert judge(Estimate.exact(value), limit, at_least=at_least) in (Verdict.KEPT, Verdict.BROKEN)


@given(positive, st.booleans())
def test_a_figure_at_its_limit_keeps_it(limit: float, at_least: bool) -> None:
    assert judge(Estimate.exact(limit), limit, at_least=at_least) is Verdict.KEPT


@given(estimates(), positive, st.booleans(), positive)
def test_a_wider_interval_never_turns_doubt_into_a_judgement(
    estimate: Estimate, limit: float, at_least: bool, more: float
) -> None:
    wider = replace(estimate, low=max(0.0, estimate.low - more), high=estimate.high + more)
    before, after = (judge(e, limit, at_least=at_least) for e in (estimate, wider))
    assert after in (before, Verdict.WITHIN_NOISE)


@given(estimates(), positive, positive)
def test_a_laxer_limit_never_breaks_what_a_stricter_one_did_not(
    estimate: Estimate, one: float, other: float
) -> None:
    order = [Verdict.KEPT, Verdict.WITHIN_NOISE, Verdict.BROKEN]
    strict, lax = min(one, other), max(one, other)
    assert order.index(judge(estimate, lax)) <= order.index(judge(estimate, strict))


@given(estimates())
def test_without_an_upper_bound_nothing_is_kept_for_sure(estimate: Estimate) -> None:
    unsure = replace(estimate, low=0.0, high=float("inf"))
    assert judge(unsure, estimate.value) is Verdict.WITHIN_NOISE


@given(positive, st.booleans(), st.booleans())
def test_a_figure_that_is_no_number_keeps_no_limit(limit: float, at_least: bool, exact: bool) -> None:
    nan = float("nan")
    estimate = Estimate.exact(nan) if exact else Estimate(nan, 0.0, nan)
    assert judge(estimate, limit, at_least=at_least) is not Verdict.KEPT
    assert judge(Estimate.exact(nan), limit, at_least=at_least) is Verdict.BROKEN


@given(
    st.dictionaries(st.sampled_from(["load_ms", "jitter", "token_ms.p99", "accuracy"]), positive), st.data()
)
def test_each_limit_has_one_row_in_the_order_of_the_budget(
    limits: dict[str, float], data: st.DataObject
) -> None:
    figures = data.draw(st.dictionaries(st.sampled_from([*limits, "load_ms", "other"]), estimates()))
    result = rows(limits, figures)
    assert [(row.name, row.limit) for row in result] == list(limits.items())
    for row in result:
        assert row.estimate == figures.get(row.name)
        assert (row.verdict is Verdict.NOT_MEASURED) == (row.name not in figures)


@given(positive, positive, st.sampled_from(["load_ms", *AT_LEAST]))
def test_the_margin_is_negative_exactly_where_the_limit_is_broken(
    value: float, limit: float, name: str
) -> None:
    (row,) = rows({name: limit}, {name: Estimate.exact(value)})
    assert row.margin is not None
    assert (row.margin < 0) == (row.verdict is Verdict.BROKEN)


def test_the_margin_is_a_share_of_the_limit() -> None:
    assert Row("load_ms", 200, Estimate.exact(50), Verdict.KEPT).margin == pytest.approx(0.75)
    assert Row("accuracy", 0.8, Estimate.exact(0.9), Verdict.KEPT).margin == pytest.approx(0.125)
    assert Row("load_ms", 200, None, Verdict.NOT_MEASURED).margin is None
