"""Predictions of one config for `edgegpt params`, as a table and as JSON."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from edgegpt.budget.format import threads_text
from edgegpt.cli.output import table
from edgegpt.config.model import ModelConfig
from edgegpt.errors import ConfigError
from edgegpt.prediction.predict import Prediction, Predictor, caveats
from edgegpt.prediction.target import Target
from edgegpt.quantization import PRECISIONS


@dataclass(frozen=True)
class Predicted:
    """What was predicted, by precision."""

    target: Target
    by_precision: dict[str, Prediction]
    caveats: tuple[str, ...]

    def json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "target": self.target.name,
            "threads": self.target.threads,
            "caveats": list(self.caveats),
            **{precision: asdict(prediction) for precision, prediction in self.by_precision.items()},
        }

    def shown(self) -> Iterator[RenderableType]:
        """For people."""
        one = next(iter(self.by_precision.values()))
        columns = [
            "precision",
            f"first token of {one.prompt_tokens}, ms",
            f"token after {one.cached_tokens}, ms",
            "load, ms",
            "peak RSS, MB",
            "file, MB",
        ]
        rows = [
            [
                precision,
                f"{p.ttft_ms:.2f}",
                f"{p.token_ms:.3f}",
                f"{p.load_ms:.0f}",
                f"{p.peak_rss_mb:.0f}",
                f"{p.artifact_mb:.2f}",
            ]
            for precision, p in self.by_precision.items()
        ]
        threads = threads_text(self.target.threads)
        yield table(f"Predicted for {self.target.name}, {threads}, medians", columns, rows)
        for caveat in self.caveats:
            yield f"Careful: {caveat}."


def predict(
    config: ModelConfig,
    path: Path,
    precision: str | None,
    prompt_tokens: int | None,
    cached_tokens: int | None,
    capacity: int | None,
) -> Predicted:
    """Predict one precision or all.

    Raises:
        ConfigError: the target file is not valid, the precision is none of ours, or prompt_tokens or
            cached_tokens leaves no room for a token.
    """
    if precision is not None and precision not in PRECISIONS:
        raise ConfigError(
            f"--precision must be {', '.join(PRECISIONS[:-1])} or {PRECISIONS[-1]}, got {precision!r}"
        )
    target = Target.from_yaml(path)
    predictor = Predictor(target)
    wanted = PRECISIONS if precision is None else (precision,)
    found = {
        p: predictor.predict(
            config, p, prompt_tokens=prompt_tokens, cached_tokens=cached_tokens, capacity=capacity
        )
        for p in wanted
    }
    return Predicted(target, found, caveats(target))
