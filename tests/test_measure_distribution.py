"""Percentiles and their intervals, by hand."""

import json
import math
from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
import pytest
from hypothesis import given, strategies as st

from edgegpt.errors import MeasureError
from edgegpt.measure.distribution import Distribution

Refused = Callable[..., AbstractContextManager[None]]
HUNDRED = Distribution(tuple(float(i) for i in range(100, 0, -1)))


def test_percentiles_are_samples_that_were_measured() -> None:
    assert (HUNDRED.p50, HUNDRED.p90, HUNDRED.p99, HUNDRED.max) == (50.0, 90.0, 99.0, 100.0)
    assert HUNDRED.mean == 50.5
    assert HUNDRED.jitter == 99 / 50
    assert Distribution((3.0,)).p99 == 3.0


def test_the_median_of_ten_lies_between_the_second_and_the_ninth() -> None:
    """As in every table of the sign test: 97.9 % at n = 10."""
    interval = Distribution(tuple(float(i) for i in range(1, 11))).interval(0.5)
    assert (interval.low, interval.high) == (2.0, 9.0)


@pytest.mark.parametrize(("n", "bounded"), [(5, False), (6, True)])
def test_a_median_has_bounds_from_six_samples_on(n: int, bounded: bool) -> None:
    """1/2^5 is more than 2.5 %, 1/2^6 is less."""
    interval = Distribution(tuple(float(i) for i in range(1, n + 1))).interval(0.5)
    assert (interval.low, interval.high) == ((1.0, float(n)) if bounded else (0.0, math.inf))


@pytest.mark.parametrize(("n", "bounded"), [(367, False), (368, True)])
def test_the_99th_percentile_has_an_upper_bound_from_368_samples_on(n: int, bounded: bool) -> None:
    """0.99^367 is more than 2.5 %, 0.99^368 is less."""
    assert math.isfinite(Distribution(tuple(map(float, range(n)))).interval(0.99).high) == bounded


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
    assert summary["samples"] == 100
    assert summary["p99_interval"] == [97.0, None]


def test_joined_parts_keep_every_sample() -> None:
    assert Distribution.joined([Distribution((1.0, 3.0)), Distribution((2.0,))]).samples == (1.0, 3.0, 2.0)


def test_no_samples_are_no_distribution(refused: Refused) -> None:
    with refused(MeasureError):
        Distribution(())
    with refused(MeasureError, 1.0):
        HUNDRED.interval(1.0)
