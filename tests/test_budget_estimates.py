"""One figure and its interval, from several measuring processes or from a user's own samples."""

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from conftest import Refused
from helpers.sample_figures import FIGURES as MADE
from hypothesis import given, strategies as st

from edgegpt.budget.estimates import LEAST_PROCESSES, estimate_samples, estimates, was_disturbed
from edgegpt.budget.verdict import Estimate, Verdict, judge
from edgegpt.errors import MeasureError
from edgegpt.measure.distribution import Distribution
from edgegpt.measure.spec import STEADY_REQUESTS, ProcessResult

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
SLOPE = "rss_slope_kb_per_1000"
times = st.floats(1e-3, 1e3)


def steps(**fills: list[float]) -> dict[int, Distribution]:
    """Return the decode steps of a process: `steps(at16=[1.0, 2.0])` has two at a cache fill of 16."""
    return {int(name[2:]): Distribution(tuple(samples)) for name, samples in fills.items()}


def processes(**each: list[Any]) -> list[ProcessResult]:
    """One a value."""
    n = len(next(iter(each.values())))
    return [replace(FIGURES, **{name: values[i] for name, values in each.items()}) for i in range(n)]


def of(name: str, **each: list[Any]) -> Estimate:
    estimate = estimates(processes(**each))[name]
    assert estimate is not None
    return estimate


# Several processes

TWO_FILLS = steps(at16=[1.0] * 60, at200=[3.0] * 40)
WORST_FILL = steps(at16=[1.0] * 100, at200=[1.0] * 90 + [4.0] * 10)
CALM, WILD = steps(at16=[1.0] * 1000), steps(at16=[1.0] * 90 + [9.0] * 2)
ONE_SLOW_STEP = [steps(at16=[1.0, slow]) for slow in (2.0, 2.0, 50.0, 3.0, 2.0, 2.0)]


@pytest.mark.parametrize(
    ("name", "each", "expected"),
    [
        # The interval of six processes reaches from the least to the most; one alone breaks no limit.
        ("load_ms", {"load_ms": [210.0, 190.0, 205.0, 400.0, 195.0, 200.0]}, (202.5, 190.0, 400.0)),
        ("load_ms", {"load_ms": [200.0] * 5 + [9000.0]}, (200.0, 200.0, 9000.0)),
        # A load that waited for its core may have been that much shorter.
        ("load_ms", {"load_ms": [200.0] * 6, "load_waited_ms": [120.0] * 6}, (200.0, 80.0, 200.0)),
        ("load_ms", {"load_ms": [200.0] * 6, "load_waited_ms": [3.9] * 6}, (200.0, 200.0, 200.0)),
        ("load_ms", {"load_ms": [200.0] * 6, "load_waited_ms": [None] * 6}, (200.0, 200.0, 200.0)),
        # Memory that shrinks is a negative slope; a megabyte is a million bytes.
        (SLOPE, {SLOPE: [-8.0, -4.0, 0.0, 4.0, -2.0, 1.0]}, (-1.0, -8.0, 4.0)),
        ("peak_rss_mb", {"peak_rss_bytes": [90_000_000] * 6}, (90.0, 90.0, 90.0)),
        # A p99 of few samples has no upper bound.
        ("ttft_ms.p99", {"first_token": [{32: Distribution((1.0,) * 10)}] * 6}, (1.0, 1.0, math.inf)),
        ("ttft_ms.p99", {"first_token": [{32: Distribution((1.0,) * 100)}] * 6}, (1.0, 1.0, 1.0)),
        # All cache fills count for the step time, but jitter is of one fill, the worst.
        ("token_ms.p50", {"token": [TWO_FILLS] * 6}, (1.0, 1.0, 1.0)),
        ("token_ms.p99", {"token": [TWO_FILLS] * 6}, (3.0, 3.0, 3.0)),
        ("jitter", {"token": [TWO_FILLS] * 12}, (1.0, 1.0, 1.0)),
        ("jitter", {"token": [WORST_FILL] * 6}, (4.0, 4.0, 4.0)),
        # The slowest step exceeds a limit only where every process had one.
        ("token_ms.max", {"token": ONE_SLOW_STEP}, (50.0, 2.0, 50.0)),
        # Jitter is as sure as both of its percentiles, and no surer than the processes agree. One slow step
        # in each process of 48 is its p99, and says little of the p99 of all.
        ("jitter", {"token": [steps(at16=[1.0] * 47 + [9.0])] * 6}, (9.0, 1.0, math.inf)),
        ("jitter", {"token": [steps(at16=[1.0] * 900 + [9.0] * 100)] * 6}, (9.0, 9.0, 9.0)),
        ("jitter", {"token": [CALM] * 5 + [WILD]}, (1.0, 1.0, 9.0)),
    ],
)
def test_the_figure_of_several_processes_has_an_interval(
    name: str, each: dict[str, list[Any]], expected: tuple[float, float, float]
) -> None:
    assert LEAST_PROCESSES == 6
    assert of(name, **each) == Estimate(*expected)


def test_what_was_left_out_or_is_not_reported_is_not_made_up() -> None:
    names = {"peak_rss_bytes": "peak_rss_mb", "idle_cpu_percent": "idle_cpu_percent", SLOPE: SLOPE}
    found = estimates(processes(first_token=[{}] * 6, token=[{}] * 6))
    assert set(found) == {"load_ms", *names.values()}
    for field, name in names.items():
        assert estimates(processes(**{field: [5.0] * 5 + [None]}))[name] is None


@given(
    st.lists(st.lists(times, min_size=1, max_size=40), min_size=6, max_size=8),
    st.sampled_from(["p50", "p99"]),
)
def test_a_percentile_and_those_of_the_processes_are_in_its_interval(
    samples: list[list[float]], percentile: str
) -> None:
    """Noise between processes is never hidden: the interval of six to eight reaches to the outermost."""
    first = [{32: Distribution(tuple(part))} for part in samples]
    estimate = of(f"ttft_ms.{percentile}", first_token=first)
    own = [getattr(part[32], percentile) for part in first]
    assert estimate.low <= min(estimate.value, *own)
    assert estimate.high >= max(estimate.value, *own)


def test_growth_in_too_few_requests_may_be_a_warm_up() -> None:
    slopes = [400.0] * 6
    assert judge(of(SLOPE, **{SLOPE: slopes}), 100.0) is Verdict.BROKEN
    few = of(SLOPE, **{SLOPE: slopes}, watched_requests=[50] * 6)
    assert judge(few, 100.0) is Verdict.WITHIN_NOISE


def test_a_system_that_counts_no_waits_leaves_slow_samples_in_doubt() -> None:
    unknown = processes(token=[SLOW_TAIL] * 6, waited_percent=[None] * 6)
    assert judge(estimates(unknown)["token_ms.p99"], 4.0) is Verdict.WITHIN_NOISE
    assert not any(map(was_disturbed, unknown))  # measuring again would show no more


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


@pytest.mark.parametrize("number", [3, 3.0, np.float32(3), np.float64(3), np.int64(3)])
def test_one_number_of_any_kind_is_exact(number: float) -> None:
    assert estimate_samples("token_ms.p99", number) == Estimate.exact(3.0)
    assert estimate_samples("token_ms.max", [number] * 2) == Estimate.exact(3.0)


def test_own_samples_in_any_sequence_are_judged_by_the_part_of_the_limit() -> None:
    samples = np.arange(1.0, 1001.0)
    assert estimate_samples("token_ms.p50", samples).value == 500
    assert estimate_samples("token_ms.p50", dict(enumerate(samples)).values()).value == 500
    assert estimate_samples("token_ms.p99", samples).value == 990
    assert estimate_samples("token_ms.max", samples) == Estimate.exact(1000)
    median = estimate_samples("load_ms", samples)
    assert median.low < median.value < median.high
    assert median == estimate_samples("load_ms", iter(range(1, 1001)))
    assert estimate_samples(SLOPE, -3.0) == Estimate.exact(-3.0)  # memory may shrink


def test_few_own_samples_leave_doubt_and_too_few_to_break_any_limit_are_refused(refused: Refused) -> None:
    assert math.isinf(estimate_samples("token_ms.p99", [1.0] * 20).high)
    assert judge(estimate_samples("token_ms.p99", [30.0]), 20) is Verdict.BROKEN
    assert judge(estimate_samples("ttft_ms.p50", [900.0] * 6), 20) is Verdict.BROKEN
    for n in (1, 5):
        with refused(MeasureError, "ttft_ms.p50", 6, n):
            estimate_samples("ttft_ms.p50", [900.0] * n)


@pytest.mark.parametrize("right", [True, 1, 1.0, np.True_, np.float32(1)])
def test_right_and_wrong_answers_are_an_accuracy_and_no_median(right: float) -> None:
    wrong = type(right)(0)
    assert estimate_samples("accuracy", [right] * 60 + [wrong] * 40) == Estimate.exact(0.6)
    assert estimate_samples("accuracy", [right] * 9 + [wrong]) == Estimate.exact(0.9)


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
        ("token_ms.p50", [True, 2.0, 2.0, 2.0, 2.0, 2.0], "True"),
        ("token_ms.p50", [[1.0, 2.0], [3.0]], "3.0"),
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
