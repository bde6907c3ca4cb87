"""Plan models for a budget, and write a planned model as YAML."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from edgegpt.budget import Budget
from edgegpt.errors import ConfigError, ImpossibleBudgetError
from edgegpt.measure import Progress
from edgegpt.planner.infeasible import describe, infeasible, infeasible_json
from edgegpt.planner.limits import PlanLimits, limits_of
from edgegpt.planner.parallel import Result, Spread, Task, check_workers, processes, ranges
from edgegpt.planner.ray_backend import ray_cluster
from edgegpt.planner.search import (
    Found,
    Job,
    RankedCandidate,
    merge,
    merge_nearest,
    nearest_in_range,
    search_range,
)
from edgegpt.planner.space import Space
from edgegpt.prediction import Target

KEEP: Final = 10


@dataclass(frozen=True)
class PlanResult:
    """Result of a search; `found.best` has at least one model.

    Attributes:
        budget: the budget that the models keep.
        limits: limits of the budget that were applied.
        found: the strongest models and the Pareto front.
    """

    budget: Budget
    limits: PlanLimits
    found: Found


def plan_models(
    budget: Budget,
    space: Space,
    *,
    target: Target | None = None,
    keep: int = KEEP,
    workers: int = 1,
    ray: str | None = None,
    slower: Mapping[str, float] | None = None,
    on_share: Progress = lambda _: None,
) -> PlanResult:
    """Return the strongest models of a space that keep a budget, by counting and predicting.

    The result does not depend on workers or ray.

    Args:
        budget: the limits.
        space: the models.
        target: profile of the board; without one only sizes are limited.
        keep: number of the strongest models to return.
        workers: processes.
        ray: address of a Ray cluster to use instead of processes; see `ray_backend.ray_cluster`.
        slower: measured / predicted by the name of a limit; the limit is divided by it.
        on_share: called with the share that is done.

    Raises:
        ConfigError: the budget has no limit that can be planned for, workers is out of its range, the space
            has no model, or the cluster does not answer.
        MeasureError: a process of the search was ended from outside.
        ImpossibleBudgetError: no model keeps the budget; it names the limiting constraints and the smallest
            relaxation that works.
    """
    check_workers(workers)
    limits = limits_of(budget, target).tightened(slower or {})
    job = Job(space, limits, target, keep)
    opened: AbstractContextManager[Spread]
    opened = processes(job, workers) if ray is None else ray_cluster(job, ray)
    with opened as spread:

        def results(task: Task[Result]) -> Iterator[Result]:
            n = len(ranges(job))
            for i, part in enumerate(spread(task)):
                on_share((i + 1) / n)
                yield part

        found = merge(job, results(search_range))
        if not found.seen:
            raise ConfigError(f"no model is in the space to search, got {space}")
        if not found.best:
            nearest = merge_nearest(job, results(nearest_in_range))
            raise ImpossibleBudgetError(
                infeasible(budget, limits, nearest, space), infeasible_json(budget, limits, nearest)
            )
    return PlanResult(budget, limits, found)


_SHOWN = ("parameters", "artifact_mb", "peak_rss_mb", "ttft_ms.p50", "token_ms.p50")


def model_yaml(planned: PlanResult, chosen: RankedCandidate, target: Target | None) -> str:
    """Return the config as YAML, with the budget, the predictions and the precision in comments."""
    figures = ", ".join(f"{name} {chosen.figures[name]:.4g}" for name in _SHOWN if name in chosen.figures)
    board = "" if target is None else f" on {target.name}"
    lines = [
        f"# Planned by `edgegpt plan` for the budget {planned.budget.name}{board}: {describe(chosen)}.",
        f"# Predicted: {figures}.",
        f"# Export it with --precision {chosen.candidate.precision}; its tokenizer has at most "
        f"{chosen.candidate.config.vocab_size} tokens.",
    ]
    return "\n".join(" ".join(line.split()) for line in lines) + "\n" + chosen.candidate.config.to_yaml()
