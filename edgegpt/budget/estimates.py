"""Estimate figures and their intervals from several measuring processes, or from a user's own samples.

Processes are independent measurements: within one, other work or an unlucky layout of memory affects many
samples at once. So an interval is never narrower than the processes differ, and for percentiles of times
never narrower than the number of samples allows.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from numbers import Real
from reprlib import repr as short_repr
from typing import Final

import numpy as np

from edgegpt.budget.verdict import Estimate
from edgegpt.errors import MeasureError
from edgegpt.measure import DISTURBED_PERCENT, STEADY_REQUESTS, Distribution, Interval, ProcessResult

# The smallest and the largest of six enclose the true median with 97 % probability; of five with 94 %.
LEAST_PROCESSES: Final = 6


def estimates(processes: Sequence[ProcessResult]) -> dict[str, Estimate | None]:
    """Return figures by the names of the limits; None where this system does not report one.

    Args:
        processes: at least LEAST_PROCESSES with the same spec. The time to first token is that of the
            shortest prompt, the time of a decode step that of all cache fills together.
    """
    found: dict[str, Estimate | None] = {
        "peak_rss_mb": _of_each(
            processes, lambda p: None if p.peak_rss_bytes is None else p.peak_rss_bytes / 1e6
        ),
        "load_ms": _load(processes),
        "idle_cpu_percent": _of_each(processes, lambda p: p.idle_cpu_percent),
        "rss_slope_kb_per_1000": _slope(processes),
    }
    if processes[0].first_token:
        first = [figures.first_token[min(figures.first_token)] for figures in processes]
        found |= {"ttft_ms.p50": _percentile(first, 0.50), "ttft_ms.p99": _percentile(first, 0.99)}
    if processes[0].token:
        token = [Distribution.joined(figures.token.values()) for figures in processes]
        found |= {
            "token_ms.p50": _percentile(token, 0.50),
            "token_ms.p99": _percentile(token, 0.99),
            "token_ms.max": _largest(token),
            "jitter": _jitter(processes),
        }
    return found if all(map(is_quiet, processes)) else _tails_in_doubt(found)


def is_quiet(figures: ProcessResult) -> bool:
    """Return whether a process is known to have had its core to itself."""
    return figures.waited_percent is not None and figures.waited_percent <= DISTURBED_PERCENT


def was_disturbed(figures: ProcessResult) -> bool:
    """Return whether a process is known to have lost its core to other work, so that it is measured again."""
    return (figures.waited_percent or 0.0) > DISTURBED_PERCENT


def estimate_samples(name: str, samples: float | Iterable[float]) -> Estimate:
    """Return a figure for the limit `name` from a user's own samples, in the limit's unit.

    One number is exact. Of several, `accuracy` is their mean, for example of right (1) and wrong (0) answers,
    and exact, since the set of examples is fixed. `.p50` and `.p99` are that percentile with its
    interval, `.max` is the largest, and every other limit is judged by the median.

    Raises:
        MeasureError: a sample is not a number, not finite or out of the limit's range, or there are too few.
    """
    single = not isinstance(samples, Iterable)
    items = list(samples) if isinstance(samples, Iterable) else [samples]
    refused = () if name == "accuracy" else (bool, np.bool_)  # a truth value is an answer, not a time
    if not all(isinstance(item, Real | np.bool_) and not isinstance(item, refused) for item in items):
        raise MeasureError(f"{name} takes a number or several, of Python or NumPy, got {short_repr(samples)}")
    try:
        values = np.asarray(items, float)
    except OverflowError as e:
        raise MeasureError(f"{name} takes finite numbers, got {short_repr(samples)}") from e
    low = -math.inf if name == "rss_slope_kb_per_1000" else 0.0  # memory may shrink
    high = 1.0 if name == "accuracy" else math.inf
    if (wrong := values[~np.isfinite(values) | (values < low) | (values > high)]).size:
        raise MeasureError(f"{name} takes finite numbers from {low:g} to {high:g}, got {wrong[0]:g}")
    found, part = Distribution(tuple(values.tolist())), name.rpartition(".")[2]
    if name == "accuracy" or single:
        return Estimate.exact(found.mean)
    if part == "max":
        return Estimate.exact(found.max)
    q = 0.99 if part == "p99" else 0.50
    if part != "p99" and found.n < LEAST_PROCESSES:
        raise MeasureError(
            f"{name} needs at least {LEAST_PROCESSES} samples, got {found.n}: the interval of a median of "
            "fewer breaks no limit; take more, or give one exact number"
        )
    return _with_interval(found, q)


def _tails_in_doubt(found: dict[str, Estimate | None]) -> dict[str, Estimate | None]:
    """Widen the intervals of slow samples down to the median, since other work may have caused them."""
    at_least = {
        "ttft_ms.p99": found.get("ttft_ms.p50"),
        "token_ms.p99": found.get("token_ms.p50"),
        "token_ms.max": found.get("token_ms.p50"),
        "jitter": Estimate.exact(1.0),
    }
    for name, median in at_least.items():
        tail = found.get(name)
        if tail is not None and median is not None:
            found[name] = replace(tail, low=min(tail.low, median.low))
    return found


def _of_each(
    processes: Sequence[ProcessResult], figure: Callable[[ProcessResult], float | None]
) -> Estimate | None:
    """Return the median of one number a process; None where one is missing."""
    found = [figure(process) for process in processes]
    known = [value for value in found if value is not None]
    return _median(known) if len(known) == len(found) else None


def _median(values: Sequence[float]) -> Estimate:
    interval = _median_interval(values)
    return Estimate(statistics.median(values), interval.low, interval.high)


def _median_interval(values: Iterable[float]) -> Interval:
    return Distribution(tuple(values)).interval(0.50)


def _percentile(parts: Sequence[Distribution], q: float) -> Estimate:
    """Return a percentile of all samples; its interval covers the samples' and the one between processes."""
    found = _with_interval(Distribution.joined(parts), q)
    between = _median_interval(part.percentile(q) for part in parts)
    return replace(found, low=min(found.low, between.low), high=max(found.high, between.high))


def _with_interval(samples: Distribution, q: float) -> Estimate:
    interval = samples.interval(q)
    return Estimate(samples.percentile(q), interval.low, interval.high)


def _largest(parts: Sequence[Distribution]) -> Estimate:
    """Return the slowest of all samples; its lower bound is the smallest maximum of a process."""
    largest = [part.max for part in parts]
    return Estimate(max(largest), min(largest), max(largest))


def _jitter(processes: Sequence[ProcessResult]) -> Estimate:
    """Return p99 / p50 of the worst cache fill: that time grows between fills is not jitter."""
    fills = [_jitter_of([figures.token[n] for figures in processes]) for n in processes[0].token]
    return Estimate(
        max(fill.value for fill in fills), max(fill.low for fill in fills), max(fill.high for fill in fills)
    )


def _jitter_of(parts: Sequence[Distribution]) -> Estimate:
    """Return p99 / p50 of one fill, from the ends of both intervals and the one between processes."""
    together = Distribution.joined(parts)
    slow, usual = together.interval(0.99), together.interval(0.50)
    between = _median_interval(part.jitter for part in parts)
    return Estimate(
        together.jitter,
        min(slow.low / usual.high, between.low),
        max(slow.high / usual.low if usual.low else math.inf, between.high),
    )


def _load(processes: Sequence[ProcessResult]) -> Estimate:
    """Return the load time; its lower bound excludes the time that the process waited for its core."""
    found = _median([figures.load_ms for figures in processes])
    least = _median_interval(figures.load_ms - _waited_ms(figures) for figures in processes)
    return replace(found, low=min(found.low, least.low))


def _waited_ms(figures: ProcessResult) -> float:
    waited = min(figures.load_waited_ms or 0.0, figures.load_ms)
    return waited if 100 * waited > DISTURBED_PERCENT * figures.load_ms else 0.0


def _slope(processes: Sequence[ProcessResult]) -> Estimate | None:
    """Return the growth of memory; its lower bound is 0 where the requests were too few to warm up."""
    found = _of_each(processes, lambda p: p.rss_slope_kb_per_1000)
    if found is not None and any(p.watched_requests < STEADY_REQUESTS for p in processes):
        found = replace(found, low=min(found.low, 0.0))
    return found
