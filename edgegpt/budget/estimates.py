"""From what several fresh processes measured to one figure and its interval for each kind of limit.

Nothing is measured here. Each process is one independent look at the machine: within one, a busy
moment or an unlucky layout of memory touches many samples at once. So an interval never claims to be
narrower than the processes differ, and for percentiles of times also never narrower than the number
of samples allows.

From samples that somebody's own test has measured to one figure and its interval.
"""

import math
import reprlib
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from numbers import Real
from typing import Final

import numpy as np

from edgegpt.budget.verdict import Estimate
from edgegpt.errors import MeasureError
from edgegpt.measure import DISTURBED_PERCENT, STEADY_REQUESTS, Distribution, Interval, ProcessResult

# With six, the smallest and the largest enclose the true median with 97 %; with five, with 94 % only.
LEAST_PROCESSES: Final = 6


def estimates(processes: Sequence[ProcessResult]) -> dict[str, Estimate | None]:
    """Figures by the names of the limits; None where this system does not tell, or the plan left it out.

    Args:
        processes: at least LEAST_PROCESSES that did the same plan; of the first token the shortest
            prompt counts, of further tokens all cache fills together.
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
    """Whether a process is known to have had its core to itself."""
    return figures.waited_percent is not None and figures.waited_percent <= DISTURBED_PERCENT


def was_disturbed(figures: ProcessResult) -> bool:
    """Whether a process is known to have lost its core to other work, so that it may be measured again."""
    return (figures.waited_percent or 0.0) > DISTURBED_PERCENT


def _tails_in_doubt(found: dict[str, Estimate | None]) -> dict[str, Estimate | None]:
    """What slow samples say of the model when some of them are other work's: no less than the median."""
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
    """The median of one number a process."""
    found = [figure(process) for process in processes]
    known = [value for value in found if value is not None]
    return _median(known) if len(known) == len(found) else None


def _median(values: Sequence[float]) -> Estimate:
    interval = _median_interval(values)
    return Estimate(statistics.median(values), interval.low, interval.high)


def _median_interval(values: Iterable[float]) -> Interval:
    return Distribution(tuple(values)).interval(0.50)


def _percentile(parts: Sequence[Distribution], q: float) -> Estimate:
    """Of all samples together, as sure as both their number and the processes' agreement allow."""
    together = Distribution.joined(parts)
    by_samples = together.interval(q)
    by_process = _median_interval(part.percentile(q) for part in parts)
    return Estimate(
        together.percentile(q), min(by_samples.low, by_process.low), max(by_samples.high, by_process.high)
    )


def _largest(parts: Sequence[Distribution]) -> Estimate:
    """The slowest of all; only where every process had one as slow is it more than a single mishap."""
    largest = [part.max for part in parts]
    return Estimate(max(largest), min(largest), max(largest))


def _jitter(processes: Sequence[ProcessResult]) -> Estimate:
    """p99 / p50 of the worst cache fill: between fills the time grows, which is no jitter."""
    fills = [_jitter_of([figures.token[n] for figures in processes]) for n in processes[0].token]
    return Estimate(
        max(fill.value for fill in fills), max(fill.low for fill in fills), max(fill.high for fill in fills)
    )


def _jitter_of(parts: Sequence[Distribution]) -> Estimate:
    """Of one fill: at the ends of what p99 and p50 may be, and no surer than the processes agree."""
    together = Distribution.joined(parts)
    slow, usual = together.interval(0.99), together.interval(0.50)
    by_process = _median_interval(part.jitter for part in parts)
    return Estimate(
        together.jitter,
        min(slow.low / usual.high, by_process.low),
        max(slow.high / usual.low if usual.low else math.inf, by_process.high),
    )


def _load(processes: Sequence[ProcessResult]) -> Estimate:
    """What a process waited for its core while it loaded is not the model's for sure."""
    found = _median([figures.load_ms for figures in processes])
    least = _median_interval(figures.load_ms - _waited_ms(figures) for figures in processes)
    return replace(found, low=min(found.low, least.low))


def _waited_ms(figures: ProcessResult) -> float:
    waited = min(figures.load_waited_ms or 0.0, figures.load_ms)
    return waited if 100 * waited > DISTURBED_PERCENT * figures.load_ms else 0.0


def _slope(processes: Sequence[ProcessResult]) -> Estimate | None:
    """Where fewer requests were watched than it takes to warm up, growth may have been that."""
    found = _of_each(processes, lambda p: p.rss_slope_kb_per_1000)
    if found is not None and any(p.watched_requests < STEADY_REQUESTS for p in processes):
        found = replace(found, low=min(found.low, 0.0))
    return found


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
