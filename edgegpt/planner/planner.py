"""From a budget to ranked models.

A planned model as a finished models/*.yaml.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from edgegpt.budget import Budget
from edgegpt.errors import ConfigError, ImpossibleBudgetError
from edgegpt.planner.infeasible import describe, impossible, impossible_json
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
    """What was found; `found.best` has at least one model.

    Attributes:
        budget: what was asked for.
        limits: what of it the models were held to.
        found: the strongest and the front.
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
    on_share: Callable[[float], None] = lambda _: None,
    on_wait: Callable[[str], None] = lambda _: None,
) -> PlanResult:
    """The strongest models of a space that keep a budget, by counting and predicting.

    The result does not depend on workers or ray.

    Args:
        budget: the limits.
        space: the models.
        target: the board to predict for; None holds models to sizes alone.
        keep: how many of the strongest.
        workers: processes.
        ray: address of a Ray cluster to work instead of them.
        slower: by the name of a limit, how many times what is predicted was measured; its limit is divided by
            that.
        on_share: is told the share that is done.
        on_wait: is told in a sentence what a Ray cluster waits for.

    Raises:
        ConfigError: the budget has no limit that can be planned for, workers is out of its range, the space
            has no model, or the cluster does not answer.
        MeasureError: a process of the search was ended from outside.
        ImpossibleBudgetError: no model keeps the budget; it names what binds and the nearest values.
    """
    check_workers(workers)
    limits = limits_of(budget, target).tightened(slower or {})
    job = Job(space, limits, target, keep)
    opened: AbstractContextManager[Spread]
    opened = processes(job, workers) if ray is None else ray_cluster(job, ray, on_wait)
    with opened as spread:

        def told(task: Task[Result]) -> Iterator[Result]:
            n = len(ranges(job))
            for i, part in enumerate(spread(task)):
                on_share((i + 1) / n)
                yield part

        found = merge(job, told(search_range))
        if not found.seen:
            raise ConfigError(f"the search has no model: {space}")
        if not found.best:
            nearest = merge_nearest(job, told(nearest_in_range))
            raise ImpossibleBudgetError(
                impossible(budget, limits, nearest, space), impossible_json(budget, limits, nearest)
            )
    return PlanResult(budget, limits, found)


_SHOWN = ("parameters", "artifact_mb", "peak_rss_mb", "ttft_ms.p50", "token_ms.p50")


def model_yaml(planned: PlanResult, chosen: RankedCandidate, target: Target | None) -> str:
    """The config, and in comments what it was planned for and with which precision to export it."""
    figures = ", ".join(f"{name} {chosen.figures[name]:.4g}" for name in _SHOWN if name in chosen.figures)
    board = "" if target is None else f" on {target.name}"
    lines = [
        f"# Planned by `edgegpt plan` for the budget {planned.budget.name}{board}: {describe(chosen)}.",
        f"# Predicted: {figures}.",
        f"# Export it with --precision {chosen.candidate.precision}; its tokenizer has at most "
        f"{chosen.candidate.config.vocab_size} tokens.",
    ]
    return "\n".join(" ".join(line.split()) for line in lines) + "\n" + chosen.candidate.config.to_yaml()
