"""A planned model as a finished models/*.yaml."""

from edgegpt.planner.infeasible import describe
from edgegpt.planner.planner import Plan
from edgegpt.planner.search import Rated
from edgegpt.prediction.target import Target

_SHOWN = ("parameters", "artifact_mb", "peak_rss_mb", "ttft_ms.p50", "token_ms.p50")


def model_yaml(planned: Plan, chosen: Rated, target: Target | None) -> str:
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
