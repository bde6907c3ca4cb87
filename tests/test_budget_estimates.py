"""One figure and its interval, from several measuring processes or from a user's own samples."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from helpers.sample_figures import FIGURES as MADE
from hypothesis import given, strategies as st

from edgegpt.budget.estimates import LEAST_PROCESSES, estimate_samples, estimates, was_disturbed
from edgegpt.budget.verdict import Estimate, Verdict, judge
from edgegpt.errors import MeasureError
from edgegpt.measure.distribution import Distribution
from edgegpt.measure.spec import STEADY_REQUESTS, ProcessResult

Refused = Callable[..., AbstractContextManager[None]]
ONE = Distribution((1.0,))
FIGURES = replace(
    MADE,
    load_ms=200.0,
    first_token={32: ONE},
    token={16: ONE, 200: ONE},
    rss_slope_kb_per_1000=-3.0,
    watched_requests=STEADY_REQUESTS,
)
SLOW_TAIL = {16: Distribution((2.0,) * 900 + (50.0,) * 100)}
times = st.floats(1e-3, 1e3)


def processes(**each: list[Any]) -> list[ProcessResult]:
    """One a value."""
    n = len(next(iter(each.values())))
    return [replace(FIGURES, **{name: values[i] for name, values in each.items()}) for i in range(n)]


def of(name: str, **each: list[Any]) -> Estimate:
    estimate = estimates(processes(**each))[name]
    assert estimate is not None
    return estimate


# Several processes


def test_the_interval_of_six_processes_reaches_from_the_least_to_the_most() -> None:
    assert LEAST_PROCESSES == 6
    loads = [210.0, 190.0, 205.0, 400.0, 195.0, 200.0]
    assert of("load_ms", load_ms=loads) == Estimate(202.5, 190.0, 400.0)
    estimate = of("load_ms", load_ms=[200.0] * 5 + [9000.0])  # one process alone breaks no limit
    assert (estimate.value, estimate.low) == (200.0, 200.0)


def test_memory_that_shrinks_is_a_negative_slope() -> None:
    slopes = [-8.0, -4.0, 0.0, 4.0, -2.0, 1.0]
    assert of("rss_slope_kb_per_1000", rss_slope_kb_per_1000=slopes) == Estimate(-1.0, -8.0, 4.0)


@pytest.mark.parametrize("name", ["peak_rss_bytes", "idle_cpu_percent", "rss_slope_kb_per_1000"])
def test_what_the_system_does_not_report_is_not_made_up(name: str) -> None:
    key = "peak_rss_mb" if name == "peak_rss_bytes" else name
    assert estimates(processes(**{name: [5.0] * 5 + [None]}))[key] is None


def test_bytes_become_megabytes_of_a_million() -> None:
    assert of("peak_rss_mb", peak_rss_bytes=[90_000_000] * 6).value == 90


@given(
    st.lists(st.lists(times, min_size=1, max_size=40), min_size=6, max_size=8),
    st.sampled_from(["p50", "p99"]),
)
def test_a_percentile_and_those_of_the_processes_lie_in_its_interval(
    samples: list[list[float]], percentile: str
) -> None:
    first = [{32: Distribution(tuple(part))} for part in samples]
    estimate = of(f"ttft_ms.{percentile}", first_token=first)
    assert estimate.low <= estimate.value <= estimate.high
    # Noise between processes is never hidden: the interval of six to eight reaches to the outermost.
    own = [getattr(part[32], percentile) for part in first]
    assert estimate.low <= min(own)
    assert estimate.high >= max(own)


@pytest.mark.parametrize(("n", "high"), [(10, math.inf), (100, 1.0)])
def test_a_p99_of_few_samples_has_no_upper_bound(n: int, high: float) -> None:
    assert of("ttft_ms.p99", first_token=[{32: Distribution((1.0,) * n)}] * 6).high == high


def test_all_cache_fills_count_for_the_step_time_but_jitter_is_of_one_fill() -> None:
    token = {16: Distribution((1.0,) * 60), 200: Distribution((3.0,) * 40)}
    assert of("token_ms.p50", token=[token] * 6).value == 1.0
    assert of("token_ms.p99", token=[token] * 6).value == 3.0
    assert of("jitter", token=[token] * 12).value == 1.0


def test_the_slowest_step_exceeds_a_limit_only_where_every_process_had_one() -> None:
    token = [{16: Distribution((1.0, slow))} for slow in (2.0, 2.0, 50.0, 3.0, 2.0, 2.0)]
    assert of("token_ms.max", token=token) == Estimate(50.0, 2.0, 50.0)


def test_jitter_is_as_sure_as_both_of_its_percentiles() -> None:
    """One slow step in each process of 48 is its p99, and says little of the p99 of all."""
    few = of("jitter", token=[{16: Distribution((1.0,) * 47 + (9.0,))}] * 6)
    assert judge(few, 5.0) is Verdict.WITHIN_NOISE
    assert (few.low, few.high) == (1.0, math.inf)
    many = [{16: Distribution((1.0,) * 900 + (9.0,) * 100)}] * 6
    assert of("jitter", token=many) == Estimate.exact(9.0)


def test_jitter_is_no_surer_than_the_processes_agree() -> None:
    calm, wild = Distribution((1.0,) * 1000), Distribution((1.0,) * 90 + (9.0,) * 2)
    estimate = of("jitter", token=[{16: calm}] * 5 + [{16: wild}])
    assert estimate == Estimate(1.0, 1.0, 9.0)


def test_jitter_is_of_the_worst_fill() -> None:
    token = {16: Distribution((1.0,) * 100), 200: Distribution((1.0,) * 90 + (4.0,) * 10)}
    assert of("jitter", token=[token] * 6).value == 4.0


def test_what_was_left_out_has_no_figure() -> None:
    found = estimates(processes(first_token=[{}] * 6, token=[{}] * 6))
    assert set(found) == {"peak_rss_mb", "load_ms", "idle_cpu_percent", "rss_slope_kb_per_1000"}


@pytest.mark.parametrize(("waited", "low"), [(120.0, 80.0), (3.9, 200.0), (None, 200.0)])
def test_a_load_that_waited_for_its_core_may_have_been_that_much_shorter(
    waited: float | None, low: float
) -> None:
    busy = of("load_ms", load_ms=[200.0] * 6, load_waited_ms=[waited] * 6)
    assert busy == Estimate(200.0, low, 200.0)


def test_growth_in_too_few_requests_may_be_a_warm_up() -> None:
    slopes = [400.0] * 6
    assert judge(of("rss_slope_kb_per_1000", rss_slope_kb_per_1000=slopes), 100.0) is Verdict.BROKEN
    few = of("rss_slope_kb_per_1000", rss_slope_kb_per_1000=slopes, watched_requests=[50] * 6)
    assert judge(few, 100.0) is Verdict.WITHIN_NOISE


def test_a_system_that_counts_no_waits_leaves_slow_samples_in_doubt() -> None:
    unknown = processes(token=[SLOW_TAIL] * 6, waited_percent=[None] * 6)
    assert judge(estimates(unknown)["token_ms.p99"], 4.0) is Verdict.WITHIN_NOISE
    assert not any(map(was_disturbed, unknown))  # measuring again would tell no more


@pytest.mark.parametrize("name", ["token_ms.p99", "token_ms.max", "jitter"])
def test_while_other_work_takes_the_core_slow_samples_break_no_limit_but_the_median_does(name: str) -> None:
    token = [SLOW_TAIL] * 6
    quiet = of(name, token=token)
    busy = of(name, token=token, waited_percent=[30.0] * 6)
    one_was_busy = of(name, token=token, waited_percent=[0.0] * 5 + [30.0])
    assert judge(quiet, 4.0) is Verdict.BROKEN
    assert judge(busy, 4.0) is judge(one_was_busy, 4.0) is Verdict.WITHIN_NOISE
    assert judge(busy, 100.0) is Verdict.KEPT
    assert judge(of("token_ms.p50", token=token, waited_percent=[30.0] * 6), 1.0) is Verdict.BROKEN
    if name != "jitter":
        assert judge(busy, 1.0) is Verdict.BROKEN  # no tail is below its own median


# A user's own samples


def test_own_samples_are_judged_by_the_part_of_the_limit() -> None:
    samples = [float(i) for i in range(1, 1001)]
    assert estimate_samples("token_ms.p50", samples).value == 500
    assert estimate_samples("token_ms.p99", samples).value == 990
    assert estimate_samples("token_ms.max", samples) == Estimate.exact(1000)
    median = estimate_samples("load_ms", samples)
    assert median.low < median.value < median.high


@pytest.mark.parametrize("number", [3, 3.0, np.float32(3), np.float64(3), np.int64(3)])
def test_one_number_of_any_kind_is_exact(number: float) -> None:
    assert estimate_samples("token_ms.p99", number) == Estimate.exact(3.0)
    assert estimate_samples("token_ms.max", [number] * 2) == Estimate.exact(3.0)


def test_a_sequence_may_be_an_array_or_an_iterator() -> None:
    assert estimate_samples("load_ms", np.arange(1.0, 8.0)) == estimate_samples("load_ms", iter(range(1, 8)))


def test_few_own_samples_of_a_p99_leave_doubt() -> None:
    assert math.isinf(estimate_samples("token_ms.p99", [1.0] * 20).high)
    assert judge(estimate_samples("token_ms.p99", [30.0]), 20) is Verdict.BROKEN


@pytest.mark.parametrize("n", [1, 5])
def test_too_few_samples_for_a_median_to_break_any_limit_are_refused(refused: Refused, n: int) -> None:
    with refused(MeasureError, "ttft_ms.p50", 6, n):
        estimate_samples("ttft_ms.p50", [900.0] * n)
    assert judge(estimate_samples("ttft_ms.p50", [900.0] * 6), 20) is Verdict.BROKEN


@pytest.mark.parametrize("right", [True, 1, 1.0, np.True_, np.float32(1)])
def test_right_and_wrong_answers_are_an_accuracy_and_no_median(right: float) -> None:
    wrong = type(right)(0)
    answers = estimate_samples("accuracy", [right] * 60 + [wrong] * 40)
    assert answers == Estimate.exact(0.6)
    assert judge(answers, 0.9, at_least=True) is Verdict.BROKEN
    assert judge(estimate_samples("accuracy", [right] * 9 + [wrong]), 0.9, at_least=True) is Verdict.KEPT


@pytest.mark.parametrize(
    ("name", "samples", "value"),
    [
        ("token_ms.p99", [], ""),
        ("token_ms.max", math.nan, "nan"),
        ("token_ms.p50", [1.0] * 9 + [math.nan], "nan"),
        ("token_ms.p50", [1.0] * 9 + [math.inf], "inf"),
        ("token_ms.p50", 10**400, "1000"),
        ("token_ms.max", True, "True"),
        ("token_ms.max", [np.True_], "True"),
        ("token_ms.p50", "3", "'3'"),
        ("token_ms.p50", Decimal("3"), "3"),
        ("token_ms.p50", [None], "None"),
        ("token_ms.p50", np.ones((9, 2)), "array"),
        ("token_ms.p50", object, "object"),
        ("token_ms.p50", [1.0] * 9 + [-1], "-1"),
        ("accuracy", 60, "60"),
        ("accuracy", [1, 0, 2], "2"),
    ],
)
def test_samples_that_could_keep_or_break_a_limit_by_mistake_are_refused(
    refused: Refused, name: str, samples: float, value: str
) -> None:
    with refused(MeasureError, value):
        estimate_samples(name, samples)


def test_memory_may_shrink() -> None:
    assert estimate_samples("rss_slope_kb_per_1000", -3.0) == Estimate.exact(-3.0)
