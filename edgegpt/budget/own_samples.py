"""From samples that somebody's own test has measured to one figure and its interval."""

import math
import reprlib
from collections.abc import Iterable
from numbers import Real
from typing import Final

import numpy as np

from edgegpt.budget.estimates import LEAST_PROCESSES
from edgegpt.budget.verdict import Estimate
from edgegpt.errors import MeasureError
from edgegpt.measure.distribution import Distribution

_LEAST_FOR_A_MEDIAN: Final = (
    LEAST_PROCESSES  # of fewer samples the interval has no lower end, and breaks no limit
)
_KINDS: Final = "float, int or NumPy's"  # what float() makes of anything else is the caller's choice
_MAY_SHRINK: Final = "rss_slope_kb_per_1000"


def of_samples(name: str, samples: float | Iterable[float]) -> Estimate:
    """A figure for the limit `name`, in its unit.

    One number is exact. Of several, `accuracy` is their mean, such as of right (1) and wrong (0) answers, and
    exact as that of `edgegpt check`: it speaks of these very examples. `.p50` and `.p99` are that percentile
    with its interval, `.max` is the largest, and every other limit is held to the median.

    Raises:
        MeasureError: a sample is no number, not finite or out of the limit's range, or there are too few.
    """
    if isinstance(samples, Real):
        return Estimate.exact(_number(name, samples))
    try:
        several = tuple(samples)  # type: ignore[arg-type]  # what is neither is refused here
    except TypeError as e:
        raise MeasureError(f"{name} takes a number or several, {_KINDS}, got {reprlib.repr(samples)}") from e
    found = Distribution(tuple(_number(name, sample) for sample in several))
    part = name.rpartition(".")[2]
    if name == "accuracy":
        return Estimate.exact(found.mean)
    if part == "max":
        return Estimate.exact(found.max)
    q = 0.99 if part == "p99" else 0.50
    if part != "p99" and found.n < _LEAST_FOR_A_MEDIAN:
        raise MeasureError(
            f"{name} needs at least {_LEAST_FOR_A_MEDIAN} samples, got {found.n}: fewer say too little of a "
            "median to break any limit; take more, or give one number that is exact"
        )
    interval = found.interval(q)
    return Estimate(found.percentile(q), interval.low, interval.high)


def _number(name: str, sample: object) -> float:
    """A truth value is a right answer, but no time and no size."""
    kinds = (Real, np.bool_) if name == "accuracy" else (Real,)
    if not isinstance(sample, kinds) or (isinstance(sample, bool) and name != "accuracy"):
        raise MeasureError(f"{name} takes numbers, {_KINDS}, got {reprlib.repr(sample)}")
    try:
        value = float(sample)
    except OverflowError:  # a whole number of hundreds of digits
        value = math.inf
    if not math.isfinite(value):
        raise MeasureError(f"{name} takes finite numbers, got {value}")
    if name == "accuracy" and not 0 <= value <= 1:
        raise MeasureError(f"accuracy is a share from 0 to 1, got {value:g}")
    if value < 0 and name != _MAY_SHRINK:
        raise MeasureError(f"{name} cannot be negative, got {value:g}")
    return value
