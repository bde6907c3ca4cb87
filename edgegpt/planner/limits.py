"""Select the limits of a budget that a plan can apply, and compute a model's figures for them.

Counted: parameters and kv_cache_mb exactly, artifact_mb with an estimate of what a file has in addition to
its weights. Predicted from a board profile: peak_rss_mb, load_ms and the medians of ttft_ms and token_ms. The
medians are compared with the limits of p99 and max too, as these are never smaller. Without a profile
peak_rss_mb is a lower bound. All other limits are left to `edgegpt check` of the trained file.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from edgegpt.accounting import kv_cache_bytes
from edgegpt.budget import RUNTIME_BYTES, Budget, FirstTokenLatency
from edgegpt.errors import ConfigError
from edgegpt.planner.space import Candidate
from edgegpt.prediction import Predictor, Target, artifact_mb

_COUNTED: Final = ("parameters", "artifact_mb", "kv_cache_mb")
_ALWAYS: Final = (*_COUNTED, "peak_rss_mb")
_FIRST: Final = ("ttft_ms.p50", "ttft_ms.p99")
_TOKEN: Final = ("token_ms.p50", "token_ms.p99", "token_ms.max")
_ABOVE_MEDIAN: Final = (".p99", ".max")


@dataclass(frozen=True)
class PlanLimits:
    """Limits that a plan applies.

    Attributes:
        values: limits by the names of `Budget.limits`, counted ones first.
        prompt_tokens: length of the prompt of ttft_ms.
        left_out: limits of the budget that a plan cannot apply.
        memory_of: `board` or `profile` if peak_rss_mb is its memory instead of a limit of the budget.
        lower_bounds: limits for which the figure of a model is a lower bound.
    """

    values: Mapping[str, float]
    prompt_tokens: int
    left_out: tuple[str, ...] = ()
    memory_of: str | None = None
    lower_bounds: tuple[str, ...] = ()

    def tightened(self, factors: Mapping[str, float]) -> "PlanLimits":
        """Return the limits divided by `factors`, measured / predicted by name."""
        values = {name: limit / factors.get(name, 1.0) for name, limit in self.values.items()}
        return replace(self, values=values)


def prompt_tokens_of(budget: Budget) -> int:
    """Return the length of the prompt whose first token is predicted."""
    if budget.ttft_ms is not None:
        return budget.ttft_ms.prompt_tokens
    return int(FirstTokenLatency.model_fields["prompt_tokens"].default)


def limits_of(budget: Budget, target: Target | None) -> PlanLimits:
    """Return the limits of a budget that a plan applies, with the memory of board and profile.

    Raises:
        ConfigError: the budget has no limit that a plan applies.
    """
    given = budget.limits()
    names = _ALWAYS if target is None else (*_ALWAYS, "load_ms", *_FIRST, *_TOKEN)
    memory = _memory(budget, target)
    if not any(name in given for name in names) and "board" not in memory:
        hint = ", or give --profile, so that times can be predicted" if target is None else ""
        raise ConfigError(
            f"the budget {budget.name!r} has no limit that a model can be planned for, only "
            f"{', '.join(given)}; add one, such as `artifact_mb: 8`{hint}"
        )
    memory_of = min(memory, key=lambda name: memory[name], default=None)
    if memory_of is not None and memory[memory_of] < given.get("peak_rss_mb", float("inf")):
        given["peak_rss_mb"] = memory[memory_of]
    else:
        memory_of = None
    return PlanLimits(
        values={name: given[name] for name in names if name in given},
        prompt_tokens=prompt_tokens_of(budget),
        left_out=tuple(name for name in given if name not in names),
        memory_of=memory_of,
        lower_bounds=tuple(
            name
            for name in names
            if name.endswith(_ABOVE_MEDIAN) or (target is None and name == "peak_rss_mb")
        ),
    )


def counted(candidate: Candidate) -> dict[str, float]:
    """Return the figures that need no prediction."""
    config = candidate.config
    return {
        "parameters": candidate.parameters,
        "artifact_mb": artifact_mb(config, candidate.weight_bytes),
        "kv_cache_mb": kv_cache_bytes(config, config.block_size) / 1e6,
    }


def predicted(
    candidate: Candidate, known: Mapping[str, float], limits: PlanLimits, predictor: Predictor | None
) -> dict[str, float]:
    """Return the other figures, times only with a predictor; `known` are those of `counted`."""
    if predictor is None:
        return {"peak_rss_mb": RUNTIME_BYTES / 1e6 + known["artifact_mb"] + known["kv_cache_mb"]}
    p = predictor.predict(candidate.config, candidate.precision, prompt_tokens=limits.prompt_tokens)
    return {
        "peak_rss_mb": p.peak_rss_mb,
        "load_ms": p.load_ms,
        **dict.fromkeys(_FIRST, p.ttft_ms),
        **dict.fromkeys(_TOKEN, p.token_ms),
    }


def broken(found: Mapping[str, float], limits: PlanLimits) -> list[str]:
    """Return the limits that a figure exceeds; a missing figure exceeds none."""
    return [name for name, limit in limits.values.items() if found.get(name, 0.0) > limit]


def _memory(budget: Budget, target: Target | None) -> dict[str, float]:
    """Return the known memories in MB, by `board` and `profile`."""
    found = {}
    if budget.board is not None and budget.board.memory_mb is not None:
        found["board"] = float(budget.board.memory_mb.value)
    if target is not None and target.machine.memory_mb is not None:
        found["profile"] = target.machine.memory_mb
    return found
