"""A small space of models and budgets made by hand, for the tests of plans."""

from typing import Any

from edgegpt.budget.budget import Budget
from edgegpt.planner.planner import PlanResult, plan_models
from edgegpt.planner.space import Space
from helpers.sample_target import TARGET

# Some 200 models, some of them smaller than edgegpt is for.
SMALL = Space(
    layers=(1, 2, 4, 8),
    widths=(64, 96, 256),
    vocabularies=(512, 2048),
    contexts=(128, 256),
    parameters=(0, 10**9),
)
VALUES: dict[str, Any] = {"parameters": 3_000_000, "artifact_mb": 4.0, "token_ms": {"p50": 2.0}}


def budget(**limits: Any) -> Budget:
    return Budget.model_validate({"name": "hand", **limits})


def planned(**limits: Any) -> PlanResult:
    return plan_models(budget(**limits), SMALL, target=TARGET)
