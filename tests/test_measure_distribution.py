"""Percentiles and their intervals, by hand."""

import json
import math

import numpy as np
import pytest
from conftest import Refused
from hypothesis import given, strategies as st

from edgegpt.errors import MeasureError
from edgegpt.measure.distribution import Distribution


def up_to(n: int) -> Distribution:
    """Return the samples n, n - 1, ... 1."""
    return Distribution(tuple(map(float, range(n, 0, -1))))


HUNDRED = up_to(100)


def test_percentiles_are_samples_that_were_measured() -> None:
    assert (HUNDRED.p50, HUNDRED.p90, HUNDRED.p99, HUNDRED.max) == (50.0, 90.0, 99.0, 100.0)
    assert (HUNDRED.mean, HUNDRED.jitter, up_to(1).p99) == (50.5, 99 / 50, 1.0)


@pytest.mark.parametrize(
    ("n", "q", "low", "high"),
    [
        (10, 0.5, 2.0, 9.0),  # as in every table of the sign test: 97.9 %
        (5, 0.5, 0.0, math.inf),  # 1/2^5 is more than 2.5 %
        (6, 0.5, 1.0, 6.0),  # 1/2^6 is less
        (367, 0.99, 359.0, math.inf),  # 0.99^367 is more than 2.5 %
        (368, 0.99, 360.0, 368.0),  # 0.99^368 is less
    ],
)
def test_an_interval_has_the_bounds_that_its_samples_allow(n: int, q: float, low: float, high: float) -> None:
    interval = up_to(n).interval(q)
    assert (interval.low, interval.high) == (low, high)


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=60), st.sampled_from([0.5, 0.9, 0.99]))
def test_an_interval_holds_its_percentile(samples: list[float], q: float) -> None:
    part = Distribution(tuple(samples))
    assert part.interval(q).low <= part.percentile(q) <= part.interval(q).high


def test_intervals_hold_the_true_median_in_at_least_95_of_100_cases() -> None:
    rng, held = np.random.default_rng(0), 0
    for _ in range(1000):
        interval = Distribution(tuple(rng.exponential(size=50))).interval(0.5)
        held += interval.low <= math.log(2) <= interval.high
    assert 940 <= held <= 990


def test_a_summary_is_plain_json_and_a_missing_bound_is_null() -> None:
    summary = json.loads(json.dumps(HUNDRED.summary(), allow_nan=False))
    assert (summary["samples"], summary["p99_interval"]) == (100, [97.0, None])


def test_joined_parts_keep_every_sample() -> None:
    assert Distribution.joined([Distribution((1.0, 3.0)), Distribution((2.0,))]).samples == (1.0, 3.0, 2.0)


def test_no_samples_and_no_quantile_are_refused(refused: Refused) -> None:
    with refused(MeasureError):
        Distribution(())
    with refused(MeasureError, 1.0):
        HUNDRED.interval(1.0)
