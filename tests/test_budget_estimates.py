"""edgegpt.budget.estimates: one figure and its interval from what several processes measured."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from edgegpt.budget.estimates import LEAST_PROCESSES, estimates, was_disturbed
from edgegpt.budget.verdict import Estimate, Verdict, judge
from edgegpt.measure.distribution import Distribution
from edgegpt.measure.spec import STEADY_REQUESTS, ProcessResult

ONE = Distribution((1.0,))
FIGURES = ProcessResult(
    import_ms=100.0,
    load_ms=200.0,
    load_waited_ms=0.0,
    first_reply_ms=5.0,
    imported=None,
    loaded=None,
    worked=None,
    peak_rss_bytes=90_000_000,
    cache_bytes=2_000_000,
    idle_cpu_percent=0.1,
    first_token={32: ONE},
    token={16: ONE, 200: ONE},
    tokenise=ONE,
    tokenise_tokens=32,
    draw=ONE,
    round_ms=(1.0,),
    seconds=2.5,
    waited_percent=0.0,
    rss_slope_kb_per_1000=-3.0,
    watched_requests=STEADY_REQUESTS,
    bandwidth=(),
)
times = st.floats(1e-3, 1e3)


def processes(**each: list[Any]) -> list[ProcessResult]:
    """One a value."""
    n = len(next(iter(each.values())))
    return [replace(FIGURES, **{name: values[i] for name, values in each.items()}) for i in range(n)]


def of(name: str, **each: list[Any]) -> Estimate:
    estimate = estimates(processes(**each))[name]
    assert estimate is not None
    return estimate


def test_the_interval_of_six_processes_reaches_from_the_least_to_the_most() -> None:
    assert LEAST_PROCESSES == 6
    loads = [210.0, 190.0, 205.0, 400.0, 195.0, 200.0]
    assert of("load_ms", load_ms=loads) == Estimate(202.5, 190.0, 400.0)


def test_one_process_in_trouble_moves_the_figure_little_and_breaks_no_limit_alone() -> None:
    estimate = of("load_ms", load_ms=[200.0] * 5 + [9000.0])
    assert (estimate.value, estimate.low) == (200.0, 200.0)


def test_memory_that_shrinks_is_a_negative_slope() -> None:
    slopes = [-8.0, -4.0, 0.0, 4.0, -2.0, 1.0]
    assert of("rss_slope_kb_per_1000", rss_slope_kb_per_1000=slopes) == Estimate(-1.0, -8.0, 4.0)


@pytest.mark.parametrize("name", ["peak_rss_bytes", "idle_cpu_percent", "rss_slope_kb_per_1000"])
def test_what_the_system_does_not_tell_is_not_made_up(name: str) -> None:
    key = "peak_rss_mb" if name == "peak_rss_bytes" else name
    assert estimates(processes(**{name: [5.0] * 5 + [None]}))[key] is None


def test_bytes_become_megabytes_of_a_million() -> None:
    assert of("peak_rss_mb", peak_rss_bytes=[90_000_000] * 6).value == 90


@given(
    st.lists(st.lists(times, min_size=1, max_size=40), min_size=6, max_size=8),
    st.sampled_from(["p50", "p99"]),
)
def test_a_percentile_lies_in_its_interval_and_the_processes_medians_do_too(
    samples: list[list[float]], percentile: str
) -> None:
    first = [{32: Distribution(tuple(part))} for part in samples]
    estimate = of(f"ttft_ms.{percentile}", first_token=first)
    assert estimate.low <= estimate.value <= estimate.high
    # Noise between processes is never hidden: the interval of six to eight reaches to the outermost.
    own = [getattr(part[32], percentile) for part in first]
    assert estimate.low <= min(own)
    assert estimate.high >= max(own)


def test_a_p99_of_few_samples_has_no_upper_bound() -> None:
    few = [{32: Distribution((1.0,) * 10)}] * 6
    many = [{32: Distribution((1.0,) * 100)}] * 6
    assert math.isinf(of("ttft_ms.p99", first_token=few).high)
    assert of("ttft_ms.p99", first_token=many).high == 1.0


def test_all_cache_fills_count_for_the_token_time_but_jitter_is_of_one_fill() -> None:
    token = {16: Distribution((1.0,) * 60), 200: Distribution((3.0,) * 40)}
    assert of("token_ms.p50", token=[token] * 6).value == 1.0
    assert of("token_ms.p99", token=[token] * 6).value == 3.0
    assert of("jitter", token=[token] * 12).value == 1.0


def test_the_slowest_token_is_beyond_a_limit_for_sure_only_where_every_process_had_one() -> None:
    token = [{16: Distribution((1.0, slow))} for slow in (2.0, 2.0, 50.0, 3.0, 2.0, 2.0)]
    assert of("token_ms.max", token=token) == Estimate(50.0, 2.0, 50.0)


def test_jitter_is_as_sure_as_both_of_its_percentiles() -> None:
    """One slow token in each process of 48 is its p99, and says little of the p99 of all."""
    few = [{16: Distribution((1.0,) * 47 + (9.0,))}] * 6
    assert judge(of("jitter", token=few), 5.0) is Verdict.WITHIN_NOISE
    assert of("jitter", token=few).low == 1.0
    assert math.isinf(of("jitter", token=few).high)
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


def test_a_load_that_waited_for_its_core_may_have_been_as_much_shorter() -> None:
    loads = [200.0] * 6
    busy = of("load_ms", load_ms=loads, load_waited_ms=[120.0] * 6)
    assert (busy.value, busy.low, busy.high) == (200.0, 80.0, 200.0)
    assert judge(busy, 100.0) is Verdict.WITHIN_NOISE
    assert of("load_ms", load_ms=loads, load_waited_ms=[3.9] * 6) == Estimate.exact(200.0)
    assert of("load_ms", load_ms=loads, load_waited_ms=[None] * 6) == Estimate.exact(200.0)


def test_growth_in_too_few_requests_may_be_a_warm_up() -> None:
    slopes = [400.0] * 6
    assert judge(of("rss_slope_kb_per_1000", rss_slope_kb_per_1000=slopes), 100.0) is Verdict.BROKEN
    few = of("rss_slope_kb_per_1000", rss_slope_kb_per_1000=slopes, watched_requests=[50] * 6)
    assert judge(few, 100.0) is Verdict.WITHIN_NOISE


def test_a_system_that_does_not_tell_who_had_the_core_leaves_slow_samples_in_doubt() -> None:
    token = [{16: Distribution((2.0,) * 900 + (50.0,) * 100)}] * 6
    unknown = processes(token=token, waited_percent=[None] * 6)
    assert judge(estimates(unknown)["token_ms.p99"], 4.0) is Verdict.WITHIN_NOISE
    assert not any(map(was_disturbed, unknown))  # to measure them again would tell no more


@pytest.mark.parametrize("name", ["token_ms.p99", "token_ms.max", "jitter"])
def test_while_other_work_takes_the_core_slow_samples_break_no_limit_but_the_median_does(name: str) -> None:
    token = [{16: Distribution((2.0,) * 900 + (50.0,) * 100)}] * 6
    quiet = of(name, token=token)
    busy = of(name, token=token, waited_percent=[30.0] * 6)
    one_was_busy = of(name, token=token, waited_percent=[0.0] * 5 + [30.0])
    assert judge(quiet, 4.0) is Verdict.BROKEN
    assert judge(busy, 4.0) is judge(one_was_busy, 4.0) is Verdict.WITHIN_NOISE
    assert judge(busy, 100.0) is Verdict.KEPT
    assert judge(of("token_ms.p50", token=token, waited_percent=[30.0] * 6), 1.0) is Verdict.BROKEN
    if name != "jitter":
        assert judge(busy, 1.0) is Verdict.BROKEN  # a tail below its own median there is not
