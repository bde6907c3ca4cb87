"""From a budget to ranked models."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from edgegpt.budget import Budget
from edgegpt.errors import BudgetError
from edgegpt.planner.limits import Limits, limits_of
from edgegpt.planner.ray_cluster import on_ray
from edgegpt.planner.search import (
    Found,
    Job,
    Nearest,
    Rated,
    merge,
    merge_nearest,
    nearest_in_range,
    search_range,
)
from edgegpt.planner.space import Space
from edgegpt.planner.spread import Result, Task, check_workers, in_processes, ranges
from edgegpt.target import Target

KEEP: Final = 10

OnShare = Callable[[float], None]


@dataclass(frozen=True)
class Plan:
    """What was found; `found.best` has at least one model.

    Attributes:
        budget: what was asked for.
        limits: what of it the models were held to.
        found: the strongest and the front.
    """

    budget: Budget
    limits: Limits
    found: Found


def plan(
    budget: Budget,
    space: Space,
    *,
    target: Target | None = None,
    keep: int = KEEP,
    workers: int = 1,
    ray: str | None = None,
    on_share: OnShare = lambda _: None,
) -> Plan:
    """The strongest models of a space that keep a budget, by counting and predicting.

    The result does not depend on workers or ray.

    Args:
        budget: the limits.
        space: the models.
        target: the board to predict for; None holds models to sizes alone.
        keep: how many of the strongest.
        workers: processes.
        ray: address of a Ray cluster to work instead of them.
        on_share: is told the share that is done.

    Raises:
        ConfigError: the budget has no limit that can be planned for, workers is out of its range, or the
            cluster does not answer.
        MeasureError: a process of the search was ended from outside.
        BudgetError: no model keeps the budget; it names the limit that binds and the nearest value.
    """
    check_workers(workers)
    limits = limits_of(budget, with_target=target is not None)
    job = Job(space, limits, target, keep)

    def spread(task: Task[Result]) -> Iterator[Result]:
        parts = on_ray(task, job, ray) if ray is not None else in_processes(task, job, workers)
        n = len(ranges(job))
        for i, part in enumerate(parts):
            on_share((i + 1) / n)
            yield part

    found = merge(job, spread(search_range))
    if not found.best:
        raise BudgetError(impossible(budget, limits, merge_nearest(spread(nearest_in_range))))
    return Plan(budget, limits, found)


def impossible(budget: Budget, limits: Limits, nearest: Nearest) -> str:
    """Why nothing keeps a budget, in one sentence."""
    beyond = {name: value for name, value in nearest.least.items() if value > limits.values[name]}
    if beyond:
        parts = [
            f"{name} {_number(limits.values[name])} (the least is {_number(value)})"
            for name, value in beyond.items()
        ]
        return (
            f"no model keeps the budget {budget.name!r}: out of reach is {'; '.join(parts)}; "
            "nothing in the search is smaller"
        )
    value = nearest.closest.figures[nearest.binds]
    return (
        f"no model keeps all limits of the budget {budget.name!r}: {nearest.binds} binds, the nearest model "
        f"({describe(nearest.closest)}) needs {_number(value)} where {_number(limits.values[nearest.binds])} "
        "is allowed"
    )


def describe(rated: Rated) -> str:
    """As `6 x 256, 8 heads, vocabulary 4096, context 512, int8`."""
    c = rated.candidate.config
    heads = "1 head" if c.n_head == 1 else f"{c.n_head} heads"
    return (
        f"{c.n_layer} x {c.n_embd}, {heads}, vocabulary {c.vocab_size}, context {c.block_size}, "
        f"{rated.candidate.precision}"
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
