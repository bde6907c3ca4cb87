"""Build the best models with random weights and measure them on this machine, beside what was predicted.

Which of the planned models keeps the budget when it is measured; where none does, a second search.
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

# What building takes: the weights up to four times (as arrays, in the graph, in its bytes, in the file's)
# beside onnx and numpy. Measured for float32 (3.0 times) and few bits (3.9), 17 to 470 MB of weights.
_BUILD_TIMES: Final = 4
_BUILD_BYTES: Final = 100_000_000

# Writes an engine file of a config with random weights: path, config, precision.
WriteFile = Callable[[Path, ModelConfig, str], None]


@dataclass(frozen=True)
class Finalist:
    """A model that was built.

    Attributes:
        rated: with what was predicted.
        measured: by the same names; what the system does not tell is missing.
        noise: reasons to doubt the times (edgegpt.measure.noise); empty where every limit on one is kept.
    """

    rated: RankedCandidate
    measured: dict[str, float]
    noise: tuple[str, ...]

    def broken(self, limits: PlanLimits) -> tuple[str, ...]:
        """The limits that it does not keep; on a busy machine slow samples are the machine's."""
        return tuple(
            name
            for name in broken(self.measured, limits)
            if not (self.noise and name.endswith(_SLOW_SAMPLES))
        )

    def shortfall(self, limits: PlanLimits) -> str:
        """As `token_ms.p50 2.13 where 2 is allowed`."""
        return " and ".join(
            f"{name} {rounded_up(self.measured[name])} where {plain(limits.values[name])} is allowed"
            for name in self.broken(limits)
        )


def measure_finalists(
    best: Sequence[RankedCandidate],
    limits: PlanLimits,
    threads: int,
    write_file: WriteFile,
    on_step: Callable[[str], None] = lambda _: None,
    *,
    before: Machine | None = None,
) -> Iterator[Finalist]:
    """Measure each in fresh processes.

    Args:
        best: what to build.
        limits: whose prompt length counts.
        threads: of onnxruntime.
        write_file: as WriteFile.
        on_step: is told what happens next, in a few words.
        before: the machine before the search, which would count as load; None is now.

    Raises:
        MeasureError: one does not fit into the free memory, a process failed, or threads cannot be.
    """
    before = before or this_machine()  # once: the finalists are no load of another's
    for i, rated in enumerate(best):
        on_step(f"building and measuring finalist {i + 1} of {len(best)}")
        check_fits(rated)
        yield _measure(rated, limits, threads, write_file, before)


def check_fits(rated: RankedCandidate) -> None:
    """Raise MeasureError where building or running a model takes more memory than is free here.

    Counted before anything is built: a process that asks for too much is ended by the system, or takes a
    neighbour with it.
    """
    build = _BUILD_BYTES + _BUILD_TIMES * rated.candidate.weight_bytes
    need, free = max(build, 1e6 * rated.figures["peak_rss_mb"]), available_memory_bytes()
    if free is not None and need > free:
        raise MeasureError(
            f"to build and measure the model {describe(rated)} takes some {need / 1e6:,.0f} MB and this "
            f"machine has {free / 1e6:,.0f} MB free; end other programs, give the budget a smaller "
            "peak_rss_mb, or leave the measuring out with --finalists 0"
        )


def _measure(
    rated: RankedCandidate, limits: PlanLimits, threads: int, write_file: WriteFile, before: Machine
) -> Finalist:
    config, precision = rated.candidate.config, rated.candidate.precision
    prompts = (min(limits.prompt_tokens, config.block_size - 1),)
    measuring = MeasureSpec(threads=threads, prompts=prompts, seconds=_SECONDS, idle_seconds=0.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "finalist.onnx"
        write_file(path, config, precision)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        runs = [measure_process(path, measuring) for _ in range(_PROCESSES)]
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
    """What measuring said of a plan.

    Attributes:
        chosen: the strongest that kept the budget; without measuring the strongest. None if none did.
        measured: the finalists, in the order of their searches.
        slower: by limit, how many times what was predicted the first finalists took; the second search was
            held to limits divided by that. Empty where there was none.
    """

    chosen: RankedCandidate | None
    measured: tuple[Finalist, ...] = ()
    slower: dict[str, float] = field(default_factory=dict)

    @property
    def noise(self) -> tuple[str, ...]:
        """Why the times of the first finalist that has a reason are not to be trusted."""
        return next((finalist.noise for finalist in self.measured if finalist.noise), ())

    def shortfall(self, limits: PlanLimits) -> str:
        """What breaks the budget in the finalist that comes nearest to it."""
        nearest = min(
            self.measured,
            key=lambda f: max(f.measured[name] / limits.values[name] for name in f.broken(limits)),
        )
        return nearest.shortfall(limits)


def prove(
    planned: PlanResult,
    measure: Callable[[PlanResult], Iterable[Finalist]],
    search_again: Callable[[Mapping[str, float]], PlanResult],
) -> FinalistCheck:
    """Measure finalists; where all of them break the budget, those of a search that allows for it.

    On a busy machine nothing follows from their times, so that there is no second search.

    Args:
        planned: with the limits that count.
        measure: the finalists of a plan.
        search_again: for models that keep the budget though they take so many times what is predicted.

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
    except BudgetError:  # nothing keeps the budget with that much to spare
        return FinalistCheck(None, measured, slower)
    return FinalistCheck(_first_that_keeps(again, planned.limits), measured + again, slower)


def _first_that_keeps(measured: Iterable[Finalist], limits: PlanLimits) -> RankedCandidate | None:
    return next((finalist.rated for finalist in measured if not finalist.broken(limits)), None)


def _slower(measured: Iterable[Finalist], limits: PlanLimits) -> dict[str, float]:
    """For each limit that one broke, the largest measured / predicted."""
    found: dict[str, float] = {}
    for finalist in measured:
        for name in finalist.broken(limits):
            ratio = finalist.measured[name] / finalist.rated.figures[name]
            found[name] = max(ratio, found.get(name, 1.0))
    return found
