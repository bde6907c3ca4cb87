"""The limits of a budget that can be counted or predicted, and a model's figures for them.

Counted: parameters, artifact_mb, kv_cache_mb. Predicted from a target: peak_rss_mb, load_ms and the
medians of ttft_ms and token_ms, which are held to the limits of p99 and max too, since a median above
those keeps them even less. Without a target peak_rss_mb is the least that a process needs, which
may still be too little. The rest is left to `edgegpt check` of the trained file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from edgegpt.accounting import kv_cache_bytes, parameter_count
from edgegpt.budget import Budget
from edgegpt.errors import ConfigError
from edgegpt.memory_need import RUNTIME_BYTES
from edgegpt.planner.space import Candidate
from edgegpt.prediction import Predictor, artifact_mb

COUNTED: Final = ("parameters", "artifact_mb", "kv_cache_mb")
_ALWAYS: Final = (*COUNTED, "peak_rss_mb")
_FIRST: Final = ("ttft_ms.p50", "ttft_ms.p99")
_TOKEN: Final = ("token_ms.p50", "token_ms.p99", "token_ms.max")


@dataclass(frozen=True)
class Limits:
    """What models are held to.

    Attributes:
        values: by the names of `Budget.limits`; those that are counted come first.
        prompt_tokens: of ttft_ms.
        left_out: limits of the budget that no plan can hold a model to.
    """

    values: Mapping[str, float]
    prompt_tokens: int
    left_out: tuple[str, ...]


def limits_of(budget: Budget, *, with_target: bool) -> Limits:
    """The limits of a budget that count here; the board's own memory is one of them.

    Raises:
        ConfigError: there is none.
    """
    given = budget.limits()
    if budget.board is not None and budget.board.memory_mb is not None:
        given.setdefault("peak_rss_mb", float(budget.board.memory_mb.value))
    names = (*_ALWAYS, "load_ms", *_FIRST, *_TOKEN) if with_target else _ALWAYS
    values = {name: given[name] for name in names if name in given}
    left_out = tuple(name for name in given if name not in values)
    if not values:
        hint = "" if with_target else ", or give a target with --target, so that times can be predicted"
        raise ConfigError(
            f"the budget {budget.name!r} has no limit that a model can be planned for, only "
            f"{', '.join(left_out)}; add one, such as `artifact_mb: 8`{hint}"
        )
    prompt_tokens = 32 if budget.ttft_ms is None else budget.ttft_ms.prompt_tokens
    return Limits(values, prompt_tokens, left_out)


def counted(candidate: Candidate, limits: Limits) -> dict[str, float]:
    """The figures that need no prediction, of those that are limited."""
    config = candidate.config
    found: dict[str, float] = {}
    for name in limits.values:
        if name == "parameters":
            found[name] = parameter_count(config)
        elif name == "artifact_mb":
            found[name] = artifact_mb(config, candidate.precision)
        elif name == "kv_cache_mb":
            found[name] = kv_cache_bytes(config, config.block_size) / 1e6
    return found


def figures(candidate: Candidate, limits: Limits, predictor: Predictor | None) -> dict[str, float]:
    """Everything that is known of a model: parameters, sizes, and with a target times and memory."""
    config, precision = candidate.config, candidate.precision
    found: dict[str, float] = {
        "parameters": parameter_count(config),
        "artifact_mb": artifact_mb(config, precision),
        "kv_cache_mb": kv_cache_bytes(config, config.block_size) / 1e6,
    }
    if predictor is None:
        return found | {"peak_rss_mb": RUNTIME_BYTES / 1e6 + found["artifact_mb"] + found["kv_cache_mb"]}
    p = predictor.predict(config, precision, prompt_tokens=limits.prompt_tokens)
    return found | {
        "peak_rss_mb": p.peak_rss_mb,
        "load_ms": p.load_ms,
        **dict.fromkeys(_FIRST, p.ttft_ms),
        **dict.fromkeys(_TOKEN, p.token_ms),
    }


def keeps(found: Mapping[str, float], limits: Limits) -> bool:
    """Whether the figures that are there keep their limits."""
    return all(found[name] <= limit for name, limit in limits.values.items() if name in found)
