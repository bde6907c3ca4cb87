"""Explain an infeasible budget: the limiting constraints and the smallest relaxation that works."""

from collections.abc import Sequence
from typing import Any

from edgegpt.budget import Budget, plain, rounded_up
from edgegpt.planner.limits import PlanLimits, broken
from edgegpt.planner.search import Nearest, RankedCandidate
from edgegpt.planner.space import Space


def infeasible(budget: Budget, limits: PlanLimits, nearest: Nearest, space: Space) -> str:
    """Return one sentence whose values, put into the budget, give a plan.

    Where relaxing one limit is enough, it has the value for each such limit. Otherwise it has all limits
    that the closest model breaks: they have to be relaxed together.
    """
    names, reason = _relax_one(nearest, limits) if nearest.but_for else _relax_all(nearest, limits)
    few, many = (f"{count / 1e6:g}" for count in space.parameters)
    hint = ""
    if "kv_cache_mb" in names:
        hint = "; an int8 cache, which the plan does not consider, takes a quarter (export --kv-cache int8)"
    return (
        f"no model of {few} to {many} M parameters and a context of {min(space.contexts)} or more keeps the "
        f"budget {budget.name!r}: {reason}{hint}"
    )


def infeasible_json(budget: Budget, limits: PlanLimits, nearest: Nearest) -> dict[str, Any]:
    """Return the same as JSON; `nearest` has models and the limits with which each keeps the budget."""
    ways = [([name], rated) for name, rated in nearest.but_for.items()]
    if not ways and nearest.closest is not None:
        ways = [(broken(nearest.closest.figures, limits), nearest.closest)]
    return {
        "budget": budget.name,
        "limits": dict(limits.values),
        "not_planned_for": list(limits.left_out),
        "chosen": None,
        "nearest": [
            {"needs": {name: float(rounded_up(rated.figures[name])) for name in names}, **rated.json()}
            for names, rated in ways
        ],
    }


def _relax_one(nearest: Nearest, limits: PlanLimits) -> tuple[list[str], str]:
    ways = [f"{_value(name, rated, limits)} ({describe(rated)})" for name, rated in nearest.but_for.items()]
    names = list(nearest.but_for)
    others = ", keeping all others," if len(limits.values) > 1 else ""
    return names, f"{' or '.join(names)} is the limiting constraint; relax it{others} to {', or '.join(ways)}"


def _relax_all(nearest: Nearest, limits: PlanLimits) -> tuple[list[str], str]:
    closest = nearest.closest
    assert closest is not None  # the search saw models
    names = broken(closest.figures, limits)
    values = _and([_value(name, closest, limits) for name in names])
    return names, f"{_and(names)} have to be relaxed together, to {values} ({describe(closest)})"


def describe(rated: RankedCandidate) -> str:
    """Return a model as `6 x 256, 4 heads, vocabulary 4096, context 512, int8`."""
    c = rated.candidate.config
    heads = "1 head" if c.n_head == 1 else f"{c.n_head} heads"
    return (
        f"{c.n_layer} x {c.n_embd}, {heads}, vocabulary {c.vocab_size}, context {c.block_size}, "
        f"{rated.candidate.precision}"
    )


def _value(name: str, rated: RankedCandidate, limits: PlanLimits) -> str:
    """Return a limit as `token_ms.p99 at least 0.0515 where 0.05 is allowed`."""
    about = "at least " if name in limits.lower_bounds else ""
    given = f"{plain(limits.values[name])} is allowed"
    if name == "peak_rss_mb" and limits.memory_of is not None:
        given = f"the {limits.memory_of} has {plain(limits.values[name])}"
    return f"{name} {about}{rounded_up(rated.figures[name])} where {given}"


def _and(parts: Sequence[str]) -> str:
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last
