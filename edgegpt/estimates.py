"""From what several fresh processes measured to one figure and its interval for each kind of limit.

Nothing is measured here. Each process is one independent look at the machine: within one, a busy
moment or an unlucky layout of memory touches many samples at once. So an interval never claims to be
narrower than the processes differ, and for percentiles of times also never narrower than the number
of samples allows.
"""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from edgegpt.measure.distribution import Distribution, Interval
from edgegpt.measure.plan import ProcessFigures
from edgegpt.verdict import Estimate

# With six, the smallest and the largest enclose the true median with 97 %; with five, with 94 % only.
LEAST_PROCESSES: Final = 6

# Share of its time that a process was ready to run while other work had its core, from which on its slow
# samples are the machine's: a wait is as long as ten tokens of a small model.
DISTURBED_PERCENT: Final = 2.0


def estimates(processes: Sequence[ProcessFigures]) -> dict[str, Estimate | None]:
    """Figures by the names of the limits; None where this system does not tell.

    Args:
        processes: at least LEAST_PROCESSES that did the same plan; of the first token the shortest
            prompt counts, of further tokens all cache fills together.
    """
    first = [figures.first_token[min(figures.first_token)] for figures in processes]
    token = [Distribution.joined(figures.token.values()) for figures in processes]
    found = {
        "kv_cache_mb": Estimate.exact(max(figures.cache_bytes for figures in processes) / 1e6),
        "peak_rss_mb": _of_each(
            processes, lambda p: None if p.peak_rss_bytes is None else p.peak_rss_bytes / 1e6
        ),
        "load_ms": _of_each(processes, lambda p: p.load_ms),
        "ttft_ms.p50": _percentile(first, 0.50),
        "ttft_ms.p99": _percentile(first, 0.99),
        "token_ms.p50": _percentile(token, 0.50),
        "token_ms.p99": _percentile(token, 0.99),
        "token_ms.max": _largest(token),
        "jitter": _of_each(processes, _jitter),
        "idle_cpu_percent": _of_each(processes, lambda p: p.idle_cpu_percent),
        "rss_slope_kb_per_1000": _of_each(processes, lambda p: p.rss_slope_kb_per_1000),
    }
    return found if all(map(is_quiet, processes)) else _tails_in_doubt(found)


def is_quiet(figures: ProcessFigures) -> bool:
    """Whether a process had its core to itself, by the kernel's count of how long it waited."""
    return (figures.waited_percent or 0.0) <= DISTURBED_PERCENT


def _tails_in_doubt(found: dict[str, Estimate | None]) -> dict[str, Estimate | None]:
    """What slow samples say of the model when some of them are other work's: no less than the median."""
    at_least = {
        "ttft_ms.p99": found["ttft_ms.p50"],
        "token_ms.p99": found["token_ms.p50"],
        "token_ms.max": found["token_ms.p50"],
        "jitter": Estimate.exact(1.0),
    }
    for name, median in at_least.items():
        tail = found[name]
        if tail is not None and median is not None:
            found[name] = replace(tail, low=min(tail.low, median.low))
    return found


def _of_each(
    processes: Sequence[ProcessFigures], figure: Callable[[ProcessFigures], float | None]
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


def _jitter(figures: ProcessFigures) -> float:
    """The worst cache fill's own: between fills the time grows, which is no jitter."""
    return max(tokens.jitter for tokens in figures.token.values())
