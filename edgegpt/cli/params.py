"""`edgegpt params MODEL.yaml`: sizes and FLOPs of a config, and with a board profile predictions."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from edgegpt.accounting import Account, account
from edgegpt.cli.output import JsonOption, megabytes, print_json, stdout, table
from edgegpt.config import ModelConfig
from edgegpt.errors import ConfigError
from edgegpt.measure import threads_text
from edgegpt.prediction import Prediction, Predictor, Target, caveats
from edgegpt.quantization import PRECISIONS


def params(
    model_file: Annotated[Path, typer.Argument(metavar="MODEL.yaml", help="The model's config.")],
    prompt_tokens: Annotated[
        int | None, typer.Option(min=1, help="Prompt length for prefill FLOPs and TTFT (default: 32).")
    ] = None,
    cached_tokens: Annotated[
        int | None,
        typer.Option(
            min=0, help="Cached tokens before a decode step (default: full for FLOPs, half for times)."
        ),
    ] = None,
    capacity: Annotated[
        int | None, typer.Option(min=1, help="KV-cache capacity in tokens (default: block_size).")
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            "--profile", "--target", metavar="PROFILE.yaml", help="Predict times and memory on this board."
        ),
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="Predict for fp32, int8 or int4 only (default: all three).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print exact parameters, bytes, cache size and FLOPs; with --profile predicted times and memory too."""
    config = ModelConfig.from_yaml(model_file)
    result = account(config, prompt_tokens=prompt_tokens, cached_tokens=cached_tokens, kv_capacity=capacity)
    predicted = None
    if profile is not None:
        predicted = predict(config, profile, precision, prompt_tokens, cached_tokens, capacity)
    elif precision is not None:
        raise ConfigError("--precision needs --profile; without one, sizes of all precisions are printed")
    if as_json:
        facts = {} if predicted is None else {"prediction": predicted.json()}
        print_json({"config": asdict(config), **asdict(result), **facts})
        return
    stdout.print(_sizes(result, str(model_file)))
    stdout.print(_work(result))
    stdout.print(
        f"KV cache: {result.kv_bytes_per_token:,} bytes per token, "
        f"{megabytes(result.kv_bytes)} for {result.kv_capacity} tokens\n"
        f"Activations: at most about {megabytes(result.activation_bytes)} "
        f"for a prefill chunk of {result.chunk_tokens} tokens\n"
        f"FLOPs: prefill is the mean over a prompt of {result.prompt_tokens} tokens, "
        f"decode is with {result.cached_tokens} tokens in the cache."
    )
    if predicted is not None:
        stdout.print(predicted.table())
        for caveat in predicted.caveats:
            stdout.print(f"Warning: {caveat}.")


def _sizes(result: Account, title: str) -> Table:
    columns = ["component", "parameters", "fp32", "fp16", "int8", "int4"]
    rows = []
    for component in (*result.components, result.total):
        sizes = component.weight_bytes
        rows.append(
            [
                component.name,
                f"{component.parameters:,}",
                *(megabytes(n) for n in (sizes.fp32, sizes.fp16, sizes.int8, sizes.int4)),
            ]
        )
    return table(title, columns, rows, total=True)


def _work(result: Account) -> Table:
    rows = [
        [component.name, f"{component.prefill_flops:,}", f"{component.decode_flops:,}"]
        for component in (*result.components, result.total)
        if component.prefill_flops
    ]
    return table("FLOPs of one token", ["component", "prefill", "decode"], rows, total=True)


@dataclass(frozen=True)
class Predicted:
    """Predictions by precision, and warnings about them."""

    target: Target
    by_precision: dict[str, Prediction]
    caveats: tuple[str, ...]

    def json(self) -> dict[str, Any]:
        """Return the value of `prediction` in the JSON output."""
        return {
            "target": self.target.name,
            "threads": self.target.threads,
            "caveats": list(self.caveats),
            **{precision: asdict(prediction) for precision, prediction in self.by_precision.items()},
        }

    def table(self) -> Table:
        """Return a row for each precision."""
        one = next(iter(self.by_precision.values()))
        columns = [
            "precision",
            f"first token, prompt of {one.prompt_tokens}, ms",
            f"decode step after {one.cached_tokens}, ms",
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
        return table(f"Predicted for {self.target.name}, {threads}, medians", columns, rows)


def predict(
    config: ModelConfig,
    path: Path,
    precision: str | None,
    prompt_tokens: int | None,
    cached_tokens: int | None,
    capacity: int | None,
) -> Predicted:
    """Predict one precision or all on the board profile at `path`.

    Raises:
        ConfigError: the profile is not valid, the precision is unknown, or prompt_tokens or cached_tokens
            leaves no room for a token.
    """
    if precision is not None and precision not in PRECISIONS:
        raise ConfigError(
            f"--precision must be {', '.join(PRECISIONS[:-1])} or {PRECISIONS[-1]}, got {precision!r}"
        )
    target = Target.from_yaml(path)
    predictor = Predictor(target)
    found = {
        p: predictor.predict(
            config, p, prompt_tokens=prompt_tokens, cached_tokens=cached_tokens, capacity=capacity
        )
        for p in (PRECISIONS if precision is None else (precision,))
    }
    return Predicted(target, found, caveats(target))
