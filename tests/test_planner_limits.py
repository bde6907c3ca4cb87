"""Limits of a plan, and the way out of an infeasible budget, on a board profile made by hand."""

import re
from dataclasses import replace
from typing import Any

import pytest
from conftest import Refused
from helpers.planning import SMALL, VALUES, budget, planned
from helpers.sample_target import TARGET
from hypothesis import given, settings, strategies as st

from edgegpt.budget.verdict import rounded_up
from edgegpt.errors import ConfigError, ImpossibleBudgetError, MeasureError
from edgegpt.planner import finalists
from edgegpt.planner.planner import plan_models
from edgegpt.planner.space import Space


def infeasible(
    limits: dict[str, Any], target: Any = TARGET, space: Space = SMALL
) -> tuple[str, list[dict[str, float]]]:
    """Return the sentence, and for each way out the limits with which the budget is kept."""
    with pytest.raises(ImpossibleBudgetError) as e:
        plan_models(budget(**limits), space, target=target)
    return str(e.value), [way["needs"] for way in e.value.facts["nearest"]]


def numbers_in(sentence: str) -> set[float]:
    return {float(number) for number in re.findall(r"\d+(?:\.\d+)?", sentence)}


def with_values(limits: dict[str, Any], values: dict[str, float]) -> dict[str, Any]:
    """Return the limits with other values by the names of `Budget.limits`."""
    changed = {name: dict(limit) if isinstance(limit, dict) else limit for name, limit in limits.items()}
    for name, value in values.items():
        outer, _, inner = name.partition(".")
        (changed[outer] if inner else changed)[inner or outer] = int(value) if name == "parameters" else value
    return changed


# Limits


def test_without_a_profile_only_sizes_are_limited() -> None:
    found = plan_models(budget(artifact_mb=2.0, token_ms={"p50": 1e-9}), SMALL)
    assert found.limits.left_out == ("token_ms.p50",)
    assert "token_ms.p50" not in found.found.best[0].figures


def test_a_median_above_the_limit_of_a_p99_is_no_candidate() -> None:
    for rated in planned(token_ms={"p99": 0.2}).found.best:
        assert rated.figures["token_ms.p50"] <= 0.2


def board(memory_mb: float) -> dict[str, Any]:
    memory = {"value": memory_mb, "basis": "published", "source": "hand"}
    return {"description": "hand", "memory_mb": memory}


def target_with(memory_mb: float) -> Any:
    return TARGET.model_copy(update={"machine": TARGET.machine.model_copy(update={"memory_mb": memory_mb})})


@pytest.mark.parametrize(
    ("given", "of_board", "of_target", "limit", "whose"),
    [
        (None, 85, 100, 85, "board"),
        (None, 100, 85, 85, "profile"),
        (82, 85, 100, 82, None),
        (90, None, 85, 85, "profile"),
        (90, 95, None, 90, None),
    ],
)
def test_the_smallest_of_limit_and_memories_counts(
    given: float | None, of_board: float | None, of_target: float | None, limit: float, whose: str | None
) -> None:
    made: dict[str, Any] = {"token_ms": {"p50": 1000.0}}
    made |= {} if given is None else {"peak_rss_mb": float(given)}
    made |= {} if of_board is None else {"board": board(of_board)}
    target = TARGET if of_target is None else target_with(of_target)
    found = plan_models(budget(**made), SMALL, target=target)
    assert (found.limits.values["peak_rss_mb"], found.limits.memory_of) == (limit, whose)
    assert all(rated.figures["peak_rss_mb"] <= limit for rated in found.found.best)


def test_a_budget_without_a_limit_to_plan_for_is_refused(refused: Refused) -> None:
    for target in (TARGET, target_with(100)):
        with refused(ConfigError, "idle_cpu_percent"):
            plan_models(budget(idle_cpu_percent=3), SMALL, target=target)
    with refused(ConfigError, "token_ms.p50", "--profile"):
        plan_models(budget(token_ms={"p50": 2}), SMALL)


def test_a_finalist_that_does_not_fit_is_refused_before_it_is_built(
    monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    found = planned(**VALUES)
    monkeypatch.setattr(finalists, "available_memory_bytes", lambda: 80_000_000)
    with refused(MeasureError, "80 MB", "--finalists 0"):
        list(finalists.measure_finalists(found.found.best, found.limits, 1, lambda *_: pytest.fail("built")))


# Infeasible budgets


def test_the_way_out_for_one_limit_is_a_model_that_keeps_the_others() -> None:
    """Here quantised weights are slow, so the smallest file and the fastest decode step are of two models."""
    changes = ({} if row.bits == 32 else {"node_us": 100.0} for row in TARGET.products)
    products = [row.model_copy(update=made) for row, made in zip(TARGET.products, changes, strict=True)]
    slow = TARGET.model_copy(update={"products": products})
    space = replace(SMALL, contexts=(128,), vocabularies=(512,))  # so that a plan names every model
    best = plan_models(budget(parameters=10**9), space, target=slow, keep=10**6).found.best
    every = [(rated.figures["token_ms.p50"], rated.figures["artifact_mb"]) for rated in best]
    fastest, of_the_fast = min(every)
    smallest = min(size for _, size in every)
    assert of_the_fast > 1.5 * smallest
    sentence, ways = infeasible({"artifact_mb": smallest, "token_ms": {"p50": fastest}}, slow, space)
    assert [list(way) for way in ways] == [["artifact_mb"], ["token_ms.p50"]]
    assert ways[0]["artifact_mb"] == float(rounded_up(of_the_fast))
    assert ways[0]["artifact_mb"] in numbers_in(sentence)


def test_limits_that_must_be_relaxed_together_have_the_values_of_one_model() -> None:
    sentence, (way,) = infeasible({"artifact_mb": 0.01, "token_ms": {"p50": 0.001}})
    assert sorted(way) == ["artifact_mb", "token_ms.p50"]
    assert set(way.values()) <= numbers_in(sentence)


@pytest.mark.parametrize(
    ("limits", "target", "is_bound"),
    [
        ({"token_ms": {"p99": 0.001}}, TARGET, True),
        ({"token_ms": {"p50": 0.001}}, TARGET, False),
        ({"peak_rss_mb": 20.0}, None, True),
        ({"peak_rss_mb": 40.0}, TARGET, False),
    ],
)
def test_a_lower_bound_is_called_one(limits: dict[str, Any], target: Any, is_bound: bool) -> None:
    assert ("at least" in infeasible(limits, target)[0]) == is_bound


def test_a_limit_that_is_the_boards_memory_is_named_as_that() -> None:
    sentence, ways = infeasible({"parameters": 10**6, "board": board(70)})
    assert list(ways[0]) == ["peak_rss_mb"]
    assert "board has 70" in sentence


def test_a_cache_out_of_reach_names_the_cache_of_int8() -> None:
    assert "--kv-cache int8" in infeasible({"kv_cache_mb": 0.01})[0]
    assert "--kv-cache" not in infeasible({"artifact_mb": 0.01})[0]


def tight(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high).map(lambda value: float(f"{value:.4g}"))


BUDGETS = st.fixed_dictionaries(
    {},
    optional={
        "parameters": st.integers(1000, 120_000),
        "artifact_mb": tight(0.01, 0.3),
        "kv_cache_mb": tight(0.01, 0.3),
        "peak_rss_mb": tight(60.0, 84.0),
        "load_ms": tight(100.0, 240.0),
        "ttft_ms": st.fixed_dictionaries({"prompt_tokens": st.just(32), "p50": tight(0.01, 0.5)}),
        "token_ms": st.one_of(
            st.fixed_dictionaries({"p50": tight(0.001, 0.1), "p99": tight(0.1, 0.2)}),
            st.fixed_dictionaries({"max": tight(0.001, 0.1)}),
        ),
    },
).filter(bool)


@settings(max_examples=60)
@given(BUDGETS, st.booleans())
def test_the_values_of_an_infeasible_budget_give_a_plan(limits: dict[str, Any], timed: bool) -> None:
    target = TARGET if timed else None
    try:
        plan_models(budget(**limits), SMALL, target=target)
        return  # feasible
    except ConfigError:
        return  # only times, without a profile
    except ImpossibleBudgetError as e:
        sentence, ways = str(e), [way["needs"] for way in e.facts["nearest"]]
    assert ways
    for way in ways:
        assert all(name in sentence for name in way)
        assert set(way.values()) <= numbers_in(sentence)
        assert plan_models(budget(**with_values(limits, way)), SMALL, target=target).found.best


@given(st.floats(1e-6, 1e9))
def test_a_number_is_never_rounded_below_itself(value: float) -> None:
    assert value <= float(rounded_up(value)) <= 1.011 * value
    assert "e" not in rounded_up(value).lower()


def test_numbers_are_as_a_budget_takes_them() -> None:
    assert rounded_up(0.05144) == "0.0515"
    assert rounded_up(5_234_567) == "5240000"
    assert rounded_up(2.0) == "2"
