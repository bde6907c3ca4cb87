"""A limit is broken only if the whole interval exceeds it."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from edgegpt.budget.verdict import AT_LEAST, Estimate, Row, Verdict, judge, rows

positive = st.floats(1e-6, 1e9)
ordered = st.tuples(positive, positive, positive).map(sorted)
estimates = ordered.map(lambda ends: Estimate(ends[1], ends[0], ends[2]))
NAN = float("nan")


@given(estimates, positive)
def test_broken_means_that_even_the_best_end_exceeds_the_limit_and_kept_that_even_the_worst_does_not(
    estimate: Estimate, limit: float
) -> None:
    most, least = judge(estimate, limit), judge(estimate, limit, at_least=True)
    assert (most is Verdict.BROKEN) == (estimate.low > limit)
    assert (most is Verdict.KEPT) == (estimate.high <= limit)
    assert (least is Verdict.BROKEN) == (estimate.high < limit)
    assert (least is Verdict.KEPT) == (estimate.low >= limit)


@given(positive, positive, st.booleans())
def test_an_exact_figure_is_never_within_noise_and_keeps_a_limit_that_equals_it(
    value: float, limit: float, at_least: bool
) -> None:
    assert judge(Estimate.exact(value), limit, at_least=at_least) in (Verdict.KEPT, Verdict.BROKEN)
    assert judge(Estimate.exact(limit), limit, at_least=at_least) is Verdict.KEPT


@given(estimates, positive, st.booleans(), positive)
def test_a_wider_interval_never_turns_doubt_into_a_judgement(
    estimate: Estimate, limit: float, at_least: bool, more: float
) -> None:
    wider = replace(estimate, low=max(0.0, estimate.low - more), high=estimate.high + more)
    before, after = (judge(e, limit, at_least=at_least) for e in (estimate, wider))
    assert after in (before, Verdict.WITHIN_NOISE)
    unsure = replace(estimate, low=0.0, high=float("inf"))
    assert judge(unsure, estimate.value) is Verdict.WITHIN_NOISE


@given(estimates, positive, positive)
def test_a_laxer_limit_never_breaks_what_a_stricter_one_did_not(
    estimate: Estimate, one: float, other: float
) -> None:
    order = [Verdict.KEPT, Verdict.WITHIN_NOISE, Verdict.BROKEN]
    strict, lax = min(one, other), max(one, other)
    assert order.index(judge(estimate, lax)) <= order.index(judge(estimate, strict))


@given(positive, st.booleans())
def test_a_figure_that_is_no_number_keeps_no_limit(limit: float, at_least: bool) -> None:
    assert judge(Estimate(NAN, 0.0, NAN), limit, at_least=at_least) is not Verdict.KEPT
    assert judge(Estimate.exact(NAN), limit, at_least=at_least) is Verdict.BROKEN


@given(
    st.dictionaries(st.sampled_from(["load_ms", "jitter", "token_ms.p99", "accuracy"]), positive), st.data()
)
def test_each_limit_has_one_row_in_the_order_of_the_budget(
    limits: dict[str, float], data: st.DataObject
) -> None:
    figures = data.draw(st.dictionaries(st.sampled_from([*limits, "load_ms", "other"]), estimates))
    result = rows(limits, figures)
    assert [(row.name, row.limit) for row in result] == list(limits.items())
    for row in result:
        assert row.estimate == figures.get(row.name)
        assert (row.verdict is Verdict.NOT_MEASURED) == (row.name not in figures)


@given(positive, positive, st.sampled_from(["load_ms", *AT_LEAST]))
def test_the_margin_is_a_share_of_the_limit_and_negative_exactly_where_it_is_broken(
    value: float, limit: float, name: str
) -> None:
    (row,) = rows({name: limit}, {name: Estimate.exact(value)})
    assert row.margin is not None
    assert row.margin == pytest.approx((value / limit - 1) * (1 if row.at_least else -1))
    assert (row.margin < 0) == (row.verdict is Verdict.BROKEN)
    assert Row(name, limit, None, Verdict.NOT_MEASURED).margin is None
