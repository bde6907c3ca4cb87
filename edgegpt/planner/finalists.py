"""Build the best models with random weights and measure them on this machine.

The strongest model that keeps the budget when measured is chosen; if none does, a second search allows for
the difference between measured and predicted.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from edgegpt.budget import is_timed, plain, rounded_up
from edgegpt.config import ModelConfig
from edgegpt.errors import BudgetError, MeasureError
from edgegpt.measure import (
    DISTURBED_PERCENT,
    Distribution,
    Machine,
    MeasureSpec,
    OnStep,
    ProcessResult,
    measure_process,
    measured_noise,
    this_machine,
)
from edgegpt.planner.infeasible import describe
from edgegpt.planner.limits import PlanLimits, broken
from edgegpt.planner.planner import PlanResult
from edgegpt.planner.search import RankedCandidate
from edgegpt.system import available_memory_bytes

_PROCESSES: Final = 2
_SECONDS: Final = 1.0  # in each
_SLOW_SAMPLES: Final = (".p99", ".max")

# Memory of building: up to four copies of the weights (arrays, graph, its bytes, the file's) in addition to
# onnx and numpy. Measured for float32 (3.0 copies) and quantised weights (3.9), 17 to 470 MB of weights.
_BUILD_TIMES: Final = 4
_BUILD_BYTES: Final = 100_000_000

# Writes an engine file with random weights: path, config, precision.
WriteFile = Callable[[Path, ModelConfig, str], None]


@dataclass(frozen=True)
class Finalist:
    """A model that was built and measured.

    Attributes:
        rated: the model with its predicted figures.
        measured: figures by the same names; those that the system does not report are missing.
        noise: reasons to doubt the times (edgegpt.measure.noise); empty where every limit on one is kept.
    """

    rated: RankedCandidate
    measured: dict[str, float]
    noise: tuple[str, ...]

    def broken(self, limits: PlanLimits) -> tuple[str, ...]:
        """Return the limits that it breaks; on a busy machine those of slow samples do not count."""
        return tuple(
            name
            for name in broken(self.measured, limits)
            if not (self.noise and name.endswith(_SLOW_SAMPLES))
        )

    def shortfall(self, limits: PlanLimits) -> str:
        """Return the broken limits as `token_ms.p50 2.13 where 2 is allowed`."""
        return " and ".join(
            f"{name} {rounded_up(self.measured[name])} where {plain(limits.values[name])} is allowed"
            for name in self.broken(limits)
        )


def measure_finalists(
    best: Sequence[RankedCandidate],
    limits: PlanLimits,
    threads: int,
    write_file: WriteFile,
    on_step: OnStep = lambda _: None,
    *,
    before: Machine | None = None,
) -> Iterator[Finalist]:
    """Yield each model with what fresh processes measured of it.

    Args:
        best: the models.
        limits: the plan's limits; their prompt length is used.
        threads: number of onnxruntime threads.
        write_file: writes a model with random weights.
        on_step: called with a short status message.
        before: the machine before the search, which would count as load; default now.

    Raises:
        MeasureError: a model does not fit into the free memory, a process failed, or threads is out of range.
    """
    before = before or this_machine()  # once: a finalist is not load for the next
    for i, rated in enumerate(best):
        on_step(f"building and measuring finalist {i + 1} of {len(best)}")
        check_fits(rated)
        yield _measure(rated, limits, threads, write_file, before)


def check_fits(rated: RankedCandidate) -> None:
    """Raise MeasureError if building or running a model takes more memory than is free.

    Counted before anything is built, because the system would end this process or another one.
    """
    build = _BUILD_BYTES + _BUILD_TIMES * rated.candidate.weight_bytes
    need, free = max(build, 1e6 * rated.figures["peak_rss_mb"]), available_memory_bytes()
    if free is not None and need > free:
        raise MeasureError(
            f"building and measuring the model {describe(rated)} takes about {need / 1e6:,.0f} MB, but this "
            f"machine has {free / 1e6:,.0f} MB free; end other programs, give the budget a smaller "
            "peak_rss_mb, or skip measuring with --finalists 0"
        )


def _measure(
    rated: RankedCandidate, limits: PlanLimits, threads: int, write_file: WriteFile, before: Machine
) -> Finalist:
    config, precision = rated.candidate.config, rated.candidate.precision
    prompts = (min(limits.prompt_tokens, config.block_size - 1),)
    spec = MeasureSpec(threads=threads, prompts=prompts, seconds=_SECONDS, idle_seconds=0.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "finalist.onnx"
        write_file(path, config, precision)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        runs = [measure_process(path, spec) for _ in range(_PROCESSES)]
    found = {
        "parameters": rated.figures["parameters"],
        "artifact_mb": size / 1e6,
        "kv_cache_mb": rated.figures["kv_cache_mb"],
        "load_ms": min(run.load_ms for run in runs),
        **_times("ttft_ms", [part for run in runs for part in run.first_token.values()]),
        **_times("token_ms", [part for run in runs for part in run.token.values()]),
    }
    doubtful = any(map(is_timed, broken(found, limits)))
    noise = measured_noise(runs, before, threads, least_percent=DISTURBED_PERCENT) if doubtful else ()
    return Finalist(rated, found | _memory(runs), noise)


def _times(name: str, parts: Sequence[Distribution]) -> dict[str, float]:
    together = Distribution.joined(parts)
    return {f"{name}.p50": together.p50, f"{name}.p99": together.p99, f"{name}.max": together.max}


def _memory(runs: Sequence[ProcessResult]) -> dict[str, float]:
    peaks = [run.peak_rss_bytes for run in runs if run.peak_rss_bytes is not None]
    return {"peak_rss_mb": max(peaks) / 1e6} if peaks else {}


@dataclass(frozen=True)
class FinalistCheck:
    """Result of measuring the finalists of a plan.

    Attributes:
        chosen: the strongest model that kept the budget (without measuring, the strongest); None if none did.
        measured: the finalists, in the order of their searches.
        slower: measured / predicted of the first finalists by limit, by which the second search divided its
            limits; empty without a second search.
    """

    chosen: RankedCandidate | None
    measured: tuple[Finalist, ...] = ()
    slower: dict[str, float] = field(default_factory=dict)

    @property
    def noise(self) -> tuple[str, ...]:
        """Return why the times are not reliable, from the first finalist that has a reason."""
        return next((finalist.noise for finalist in self.measured if finalist.noise), ())

    def shortfall(self, limits: PlanLimits) -> str:
        """Return what breaks the budget in the finalist nearest to it."""
        nearest = min(
            self.measured,
            key=lambda f: max(f.measured[name] / limits.values[name] for name in f.broken(limits)),
        )
        return nearest.shortfall(limits)


def check_finalists(
    planned: PlanResult,
    measure: Callable[[PlanResult], Iterable[Finalist]],
    search_again: Callable[[Mapping[str, float]], PlanResult],
) -> FinalistCheck:
    """Measure finalists; if all break the budget, search again with limits that allow for the difference.

    On a busy machine the times are not reliable, so no second search is made.

    Args:
        planned: the plan.
        measure: returns the measured finalists of a plan.
        search_again: returns a plan for measured / predicted by limit.

    Raises:
        MeasureError: a model does not fit into the free memory, or a process failed.
    """
    measured = tuple(measure(planned))
    if not measured:
        return FinalistCheck(planned.found.best[0])
    if chosen := _first_that_keeps(measured, planned.limits):
        return FinalistCheck(chosen, measured)
    if any(finalist.noise for finalist in measured):
        return FinalistCheck(None, measured)
    slower = _slower(measured, planned.limits)
    try:
        again = tuple(measure(search_again(slower)))
    except BudgetError:  # no model keeps the tightened limits
        return FinalistCheck(None, measured, slower)
    return FinalistCheck(_first_that_keeps(again, planned.limits), measured + again, slower)


def _first_that_keeps(measured: Iterable[Finalist], limits: PlanLimits) -> RankedCandidate | None:
    return next((finalist.rated for finalist in measured if not finalist.broken(limits)), None)


def _slower(measured: Iterable[Finalist], limits: PlanLimits) -> dict[str, float]:
    """Return the largest measured / predicted for each limit that one broke."""
    found: dict[str, float] = {}
    for finalist in measured:
        for name in finalist.broken(limits):
            ratio = finalist.measured[name] / finalist.rated.figures[name]
            found[name] = max(ratio, found.get(name, 1.0))
    return found
