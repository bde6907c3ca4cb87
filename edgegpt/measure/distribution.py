"""Samples of a duration, their percentiles, and confidence intervals of the percentiles."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from edgegpt.errors import MeasureError
from edgegpt.runtime import percentile

CONFIDENCE: Final = 0.95
P99_SAMPLES: Final = 368  # least samples for an upper bound of a p99: 0.99^368 < (1 - CONFIDENCE) / 2


@dataclass(frozen=True)
class Interval:
    """A confidence interval of a percentile, which holds the true one with probability CONFIDENCE.

    Attributes:
        low: milliseconds; 0 where there are too few samples for a bound.
        high: milliseconds; infinity where there are too few samples for a bound.
    """

    low: float
    high: float


@dataclass(frozen=True)
class Distribution:
    """Samples in milliseconds, in the order of measuring; raises MeasureError when there are none.

    The percentile q is the smallest sample that at least the share q of samples does not exceed, so it is
    always an observed sample.
    """

    samples: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.samples:
            raise MeasureError("a distribution needs at least one sample, got none")

    @classmethod
    def joined(cls, parts: Iterable["Distribution"]) -> "Distribution":
        """Return the samples of all parts as one distribution."""
        return cls(tuple(sample for part in parts for sample in part.samples))

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.samples)

    @property
    def p50(self) -> float:
        """The median, in milliseconds."""
        return self.percentile(0.50)

    @property
    def p90(self) -> float:
        """The 90th percentile."""
        return self.percentile(0.90)

    @property
    def p99(self) -> float:
        """The 99th percentile; the largest of fewer than a hundred samples."""
        return self.percentile(0.99)

    @property
    def max(self) -> float:
        """The largest sample. It has no interval: more samples only ever raise it."""
        return self._ordered[-1]

    @property
    def mean(self) -> float:
        """The mean, in milliseconds."""
        return math.fsum(self.samples) / self.n

    @property
    def jitter(self) -> float:
        """p99 / p50."""
        return self.p99 / self.p50 if self.p50 else math.inf

    def percentile(self, q: float) -> float:
        """Return the percentile q, from 0 to 1."""
        return percentile(self._ordered, q)

    def interval(self, q: float) -> Interval:
        """Return the confidence interval of the percentile q, from order statistics.

        It assumes only that samples are independent: the number of n samples below the true percentile is
        binomial (n, q), so the l-th and the u-th smallest enclose it with a probability that can be
        computed (Conover, Practical Nonparametric Statistics, 3rd ed. 1999, section 3.2; David and
        Nagaraja, Order Statistics, 3rd ed. 2003, section 7.1). Steps of one burst are not quite
        independent: other work that slows a whole burst makes the interval too narrow, which is why noise
        is reported separately (edgegpt.measure.noise).
        """
        lower, upper = _ranks(self.n, q)
        ordered = self._ordered
        return Interval(
            low=ordered[lower - 1] if lower else 0.0,
            high=ordered[upper - 1] if upper <= self.n else math.inf,
        )

    def summary(self) -> dict[str, Any]:
        """Return percentiles in milliseconds with their intervals for JSON; a missing upper bound is None."""
        result: dict[str, Any] = {
            "samples": self.n,
            "mean": self.mean,
            "max": self.max,
            "jitter": self.jitter,
        }
        for name, q in (("p50", 0.50), ("p90", 0.90), ("p99", 0.99)):
            interval = self.interval(q)
            result[name] = self.percentile(q)
            result[f"{name}_interval"] = [
                interval.low,
                None if math.isinf(interval.high) else interval.high,
            ]
        return result

    @cached_property
    def _ordered(self) -> list[float]:
        return sorted(self.samples)


def _ranks(n: int, q: float) -> tuple[int, int]:
    """Return the ranks l and u, from 1, with P(l <= number of samples below < u) >= CONFIDENCE.

    l is 0 or u is n + 1 where no sample is far enough out.
    """
    if not 0 < q < 1:
        raise MeasureError(f"a percentile with an interval must be between 0 and 1, got {q!r}")
    tail = (1 - CONFIDENCE) / 2
    below = np.cumsum(_binomial(n, q))  # (n + 1,): P(at most k samples are below)
    lower = int(np.searchsorted(below, tail, side="right"))  # the largest l with P(at most l - 1) <= tail
    upper = int(np.searchsorted(below, 1 - tail, side="left")) + 1  # the smallest u with P(>= u) <= tail
    return lower, min(upper, n + 1)


def _binomial(n: int, q: float) -> NDArray[np.float64]:
    """Return the probability of each count from 0 to n, by logarithms, since n! has thousands of digits."""
    k = np.arange(n + 1, dtype=np.float64)
    log_factorial = np.concatenate(([0.0], np.cumsum(np.log(k[1:]))))
    choose = log_factorial[n] - log_factorial - log_factorial[::-1]
    return np.asarray(np.exp(choose + k * math.log(q) + (n - k) * math.log1p(-q)))
