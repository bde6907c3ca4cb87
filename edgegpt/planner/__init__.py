"""Search for the strongest models that a budget allows, by counting and predicting."""

from typing import TYPE_CHECKING

from edgegpt import lazy_names

if TYPE_CHECKING:
    from edgegpt.planner.finalists import (
        Finalist as Finalist,
        FinalistCheck as FinalistCheck,
        check_finalists as check_finalists,
        measure_finalists as measure_finalists,
    )
    from edgegpt.planner.infeasible import describe as describe
    from edgegpt.planner.limits import PlanLimits as PlanLimits, prompt_tokens_of as prompt_tokens_of
    from edgegpt.planner.planner import (
        PlanResult as PlanResult,
        model_yaml as model_yaml,
        plan_models as plan_models,
    )
    from edgegpt.planner.scaling import TOKENS_PER_PARAMETER as TOKENS_PER_PARAMETER
    from edgegpt.planner.search import RankedCandidate as RankedCandidate
    from edgegpt.planner.space import Space as Space, space_of as space_of

__getattr__ = lazy_names(
    __name__,
    {
        "finalists": "Finalist FinalistCheck check_finalists measure_finalists",
        "infeasible": "describe",
        "limits": "PlanLimits prompt_tokens_of",
        "planner": "PlanResult model_yaml plan_models",
        "scaling": "TOKENS_PER_PARAMETER",
        "search": "RankedCandidate",
        "space": "Space space_of",
    },
)
