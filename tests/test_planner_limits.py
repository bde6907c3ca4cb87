"""What models are held to, and what is said of a budget that none keeps, on a target made by hand."""

import re
from dataclasses import replace
from typing import Any

import pytest
from helpers.planning import SMALL, VALUES, budget, planned
from helpers.sample_target import TARGET
from hypothesis import given, settings, strategies as st

from edgegpt.budget.verdict import rounded_up
from edgegpt.errors import BudgetError, ConfigError, MeasureError
from edgegpt.planner import finalists
from edgegpt.planner.limits import limits_of
from edgegpt.planner.planner import plan_models
from edgegpt.planner.space import Space

# One thing that a sentence says of a limit: its name, the value that is possible, the one that is allowed.
NEED = re.compile(r"(\S+) (?:at least )?(\S+) where (?:the \w+ has )?([\d.]+)")


def refusal(limits: dict[str, Any], target: Any = TARGET, space: Space = SMALL) -> str:
    with pytest.raises(BudgetError) as e:
        plan_models(budget(**limits), space, target=target)
    return str(e.value)


def with_values(limits: dict[str, Any], values: dict[str, str]) -> dict[str, Any]:
    """A budget with what a sentence printed in it, read as YAML reads it."""
    changed = {name: dict(limit) if isinstance(limit, dict) else limit for name, limit in limits.items()}
    for name, text in values.items():
        first, _, rest = name.partition(".")
        if rest:
            changed[first][rest] = float(text)
        else:
            changed[first] = int(text) if first == "parameters" else float(text)
    return changed


# What counts


def test_without_a_target_models_are_held_to_sizes_alone() -> None:
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


def test_the_boards_memory_is_a_limit() -> None:
    found = planned(parameters=10**9, board=board(85))
    assert all(rated.figures["peak_rss_mb"] <= 85 for rated in found.found.best)


def test_the_targets_memory_is_a_limit() -> None:
    found = plan_models(budget(token_ms={"p50": 1000.0}), SMALL, target=target_with(90))
    assert found.limits.values["peak_rss_mb"] == 90
    assert all(rated.figures["peak_rss_mb"] <= 90 for rated in found.found.best)


@pytest.mark.parametrize(
    ("given", "of_board", "of_target", "limit", "whose"),
    [
        (None, 85, 100, 85, "board"),
        (None, 100, 85, 85, "target"),
        (80, 85, 100, 80, None),
        (90, None, 85, 85, "target"),
        (90, 95, None, 90, None),
    ],
)
def test_the_smallest_of_limit_and_memories_counts(
    given: float | None, of_board: float | None, of_target: float | None, limit: float, whose: str | None
) -> None:
    made: dict[str, Any] = {"parameters": 10**6}
    made |= {} if given is None else {"peak_rss_mb": float(given)}
    made |= {} if of_board is None else {"board": board(of_board)}
    found = limits_of(budget(**made), TARGET if of_target is None else target_with(of_target))
    assert (found.values["peak_rss_mb"], found.memory_of) == (limit, whose)


def test_a_budget_without_a_limit_to_plan_for_is_refused() -> None:
    for target in (TARGET, target_with(100)):
        with pytest.raises(ConfigError, match="no limit that a model can be planned for, only idle_cpu_per"):
            plan_models(budget(idle_cpu_percent=3), SMALL, target=target)
    with pytest.raises(ConfigError, match="or give a target with --target"):
        plan_models(budget(token_ms={"p50": 2}), SMALL)


def test_a_finalist_that_does_not_fit_is_refused_before_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("it was built")

    found = planned(**VALUES)
    monkeypatch.setattr(finalists, "available_memory_bytes", lambda: 80_000_000)
    with pytest.raises(MeasureError, match=r"takes some \d+ MB and this machine has 80 MB free"):
        list(finalists.measure_finalists(found.found.best, found.limits, 1, never))


# What cannot be


def test_the_nearest_value_of_one_limit_is_that_of_a_model_that_keeps_the_others() -> None:
    """On this board few bits are slow, so the smallest file and the fastest token are not of one model."""
    products = [
        row if row.bits == 32 else row.model_copy(update={"node_us": 100.0}) for row in TARGET.products
    ]
    slow = TARGET.model_copy(update={"products": products})
    space = replace(SMALL, contexts=(128,), vocabularies=(512,))  # so that a plan names every model
    every = plan_models(budget(parameters=10**9), space, target=slow, keep=10**6).found.best
    fastest = min(rated.figures["token_ms.p50"] for rated in every)
    smallest = min(rated.figures["artifact_mb"] for rated in every)
    of_the_fast = min(r.figures["artifact_mb"] for r in every if r.figures["token_ms.p50"] <= fastest)
    assert of_the_fast > 1.5 * smallest
    said = refusal({"artifact_mb": smallest, "token_ms": {"p50": fastest}}, slow, space)
    assert "artifact_mb or token_ms.p50 binds; the nearest possible, all other limits kept is " in said
    assert f"artifact_mb {rounded_up(of_the_fast)} where " in said


def test_limits_that_all_have_to_give_are_all_named_with_the_values_of_one_model() -> None:
    said = refusal({"artifact_mb": 0.01, "token_ms": {"p50": 0.001}})
    assert "artifact_mb and token_ms.p50 bind together; the nearest model needs artifact_mb 0.0" in said
    assert len(NEED.findall(said)) == 2


def test_a_figure_that_is_a_lower_bound_is_said_to_be_one() -> None:
    assert "token_ms.p99 at least 0." in refusal({"token_ms": {"p99": 0.001}})
    assert "token_ms.p50 0." in refusal({"token_ms": {"p50": 0.001}})
    assert "peak_rss_mb at least " in refusal({"peak_rss_mb": 20.0}, None)
    assert "peak_rss_mb 8" in refusal({"peak_rss_mb": 40.0})


def test_a_memory_that_binds_is_said_to_be_the_boards() -> None:
    said = refusal({"parameters": 10**6, "board": board(70)})
    assert "peak_rss_mb binds" in said
    assert "where the board has 70" in said


def test_a_cache_out_of_reach_names_the_cache_of_int8() -> None:
    assert "--kv-cache int8" in refusal({"kv_cache_mb": 0.01})
    assert "--kv-cache" not in refusal({"artifact_mb": 0.01})


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
def test_what_an_impossible_budget_prints_can_be_put_into_it(limits: dict[str, Any], timed: bool) -> None:
    target = TARGET if timed else None
    try:
        plan_models(budget(**limits), SMALL, target=target)
        return  # possible after all
    except ConfigError:
        return  # of times alone, without a target
    except BudgetError as e:
        said = str(e)
    needs = NEED.findall(said)
    assert needs
    ways = [{name: value for name, value, _ in needs}]
    if "bind together" not in said:
        ways = [{name: value} for name, value, _ in needs]
    for way in ways:
        assert plan_models(budget(**with_values(limits, way)), SMALL, target=target).found.best


@given(st.floats(1e-6, 1e9))
def test_a_number_is_never_rounded_below_itself(value: float) -> None:
    assert value <= float(rounded_up(value)) <= 1.011 * value
    assert "e" not in rounded_up(value).lower()


def test_numbers_are_as_a_budget_takes_them() -> None:
    assert rounded_up(0.05144) == "0.0515"
    assert rounded_up(5_234_567) == "5240000"
    assert rounded_up(2.0) == "2"
