"""edgegpt.budget.estimates: what somebody's own test has measured, beside a limit."""

import math
from decimal import Decimal

import numpy as np
import pytest

from edgegpt.budget.estimates import of_samples
from edgegpt.budget.verdict import Estimate, Verdict, judge
from edgegpt.errors import MeasureError


def test_own_samples_are_held_by_the_part_of_the_limit() -> None:
    samples = [float(i) for i in range(1, 1001)]
    assert of_samples("token_ms.p50", samples).value == 500
    assert of_samples("token_ms.p99", samples).value == 990
    assert of_samples("token_ms.max", samples) == Estimate.exact(1000)
    median = of_samples("load_ms", samples)
    assert median.low < median.value < median.high


@pytest.mark.parametrize("number", [3, 3.0, np.float32(3), np.float64(3), np.int64(3)])
def test_one_number_of_any_kind_is_exact(number: float) -> None:
    assert of_samples("token_ms.p99", number) == Estimate.exact(3.0)
    assert of_samples("token_ms.max", [number] * 2) == Estimate.exact(3.0)


def test_a_sequence_may_be_an_array_or_an_iterator() -> None:
    assert of_samples("load_ms", np.arange(1.0, 8.0)) == of_samples("load_ms", iter(range(1, 8)))


def test_few_own_samples_of_a_p99_leave_doubt() -> None:
    assert math.isinf(of_samples("token_ms.p99", [1.0] * 20).high)
    assert judge(of_samples("token_ms.p99", [30.0]), 20) is Verdict.BROKEN


@pytest.mark.parametrize("n", [1, 5])
def test_too_few_samples_for_a_median_to_break_any_limit_are_refused(n: int) -> None:
    with pytest.raises(MeasureError, match=rf"ttft_ms\.p50 needs at least 6 samples, got {n}: "):
        of_samples("ttft_ms.p50", [900.0] * n)
    assert judge(of_samples("ttft_ms.p50", [900.0] * 6), 20) is Verdict.BROKEN


@pytest.mark.parametrize("right", [True, 1, 1.0, np.True_, np.float32(1)])
def test_right_and_wrong_answers_are_an_accuracy_and_no_median(right: float) -> None:
    wrong = type(right)(0)
    answers = of_samples("accuracy", [right] * 60 + [wrong] * 40)
    assert answers == Estimate.exact(0.6)
    assert judge(answers, 0.9, at_least=True) is Verdict.BROKEN
    assert judge(of_samples("accuracy", [right] * 9 + [wrong]), 0.9, at_least=True) is Verdict.KEPT


@pytest.mark.parametrize(
    ("name", "samples", "sentence"),
    [
        ("token_ms.p99", [], "at least one sample, got none"),
        ("token_ms.max", math.nan, "token_ms.max takes finite numbers, got nan"),
        ("token_ms.p50", [1.0] * 9 + [math.nan], "token_ms.p50 takes finite numbers, got nan"),
        ("token_ms.p50", [1.0] * 9 + [math.inf], "token_ms.p50 takes finite numbers, got inf"),
        ("token_ms.p50", 10**400, "token_ms.p50 takes finite numbers, got inf"),
        ("token_ms.max", True, "token_ms.max takes numbers, float, int or NumPy's, got True"),
        ("token_ms.max", [np.True_], "token_ms.max takes numbers, float, int or NumPy's, got "),
        ("token_ms.p50", "3", "token_ms.p50 takes numbers, float, int or NumPy's, got '3'"),
        (
            "token_ms.p50",
            Decimal("3"),
            "int or NumPy's, got Decimal('3')",
        ),
        ("token_ms.p50", [None], "token_ms.p50 takes numbers, float, int or NumPy's, got None"),
        ("token_ms.p50", np.ones((9, 2)), "token_ms.p50 takes numbers, float, int or NumPy's, got array"),
        (
            "token_ms.p50",
            np.array(3.0),
            "or several, float, int or NumPy's, got array(3.)",
        ),
        ("token_ms.p50", object, "token_ms.p50 takes a number or several, float, int or NumPy's, got "),
        ("token_ms.p50", [1.0] * 9 + [-1], "token_ms.p50 cannot be negative, got -1"),
        ("accuracy", 60, "accuracy is a share from 0 to 1, got 60"),
        ("accuracy", [1, 0, 2], "accuracy is a share from 0 to 1, got 2"),
    ],
)
def test_samples_that_could_keep_or_break_a_limit_by_mistake_are_refused(
    name: str, samples: float, sentence: str
) -> None:
    with pytest.raises(MeasureError) as error:
        of_samples(name, samples)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_memory_may_shrink() -> None:
    assert of_samples("rss_slope_kb_per_1000", -3.0) == Estimate.exact(-3.0)
