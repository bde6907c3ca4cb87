"""Why nothing keeps a budget, in one sentence: what binds, and the nearest values with which it is kept."""

from collections.abc import Sequence
from typing import Any

from edgegpt.budget import Budget, plain, rounded_up
from edgegpt.planner.limits import PlanLimits, broken
from edgegpt.planner.search import Nearest, RankedCandidate
from edgegpt.planner.space import Space


def impossible(budget: Budget, limits: PlanLimits, nearest: Nearest, space: Space) -> str:
    """The sentence. What it prints, put into the budget, gives a plan.

    Where one limit given up is enough, it says for each such limit how far. Else it names everything that
    the closest model breaks: all of it has to give at once.
    """
    names, reason = _one_gives(nearest, limits) if nearest.but_for else _all_give(nearest, limits)
    few, many = (f"{count / 1e6:g}" for count in space.parameters)
    hint = ""
    if "kv_cache_mb" in names:
        hint = "; an int8 cache, which is not planned for, takes a quarter (edgegpt export --kv-cache int8)"
    return (
        f"no model of {few} to {many} M parameters and a context of {min(space.contexts)} or more keeps the "
        f"budget {budget.name!r}: {reason}{hint}"
    )


def impossible_json(budget: Budget, limits: PlanLimits, nearest: Nearest) -> dict[str, Any]:
    """For machines. Under `nearest` are ways out: a model, and the limits with which it keeps the budget."""
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


def _one_gives(nearest: Nearest, limits: PlanLimits) -> tuple[list[str], str]:
    ways = [f"{_value(name, rated, limits)} ({describe(rated)})" for name, rated in nearest.but_for.items()]
    names = list(nearest.but_for)
    others = ", all other limits kept" if len(limits.values) > 1 else ""
    return names, f"{' or '.join(names)} binds; the nearest possible{others} is {', or '.join(ways)}"


def _all_give(nearest: Nearest, limits: PlanLimits) -> tuple[list[str], str]:
    closest = nearest.closest
    assert closest is not None  # the search saw models
    names = broken(closest.figures, limits)
    values = _and([_value(name, closest, limits) for name in names])
    return names, f"{_and(names)} bind together; the nearest model needs {values} ({describe(closest)})"


def describe(rated: RankedCandidate) -> str:
    """As `6 x 256, 4 heads, vocabulary 4096, context 512, int8`."""
    c = rated.candidate.config
    heads = "1 head" if c.n_head == 1 else f"{c.n_head} heads"
    return (
        f"{c.n_layer} x {c.n_embd}, {heads}, vocabulary {c.vocab_size}, context {c.block_size}, "
        f"{rated.candidate.precision}"
    )


def _value(name: str, rated: RankedCandidate, limits: PlanLimits) -> str:
    """As `token_ms.p99 at least 0.0515 where 0.05 is allowed`."""
    about = "at least " if name in limits.lower_bounds else ""
    given = f"{plain(limits.values[name])} is allowed"
    if name == "peak_rss_mb" and limits.memory_of is not None:
        given = f"the {limits.memory_of} has {plain(limits.values[name])}"
    return f"{name} {about}{rounded_up(rated.figures[name])} where {given}"


def _and(parts: Sequence[str]) -> str:
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last
