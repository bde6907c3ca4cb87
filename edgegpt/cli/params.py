"""`edgegpt params MODEL.yaml`.

Predictions of one config for `edgegpt params`, as a table and as JSON.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType
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
        int | None, typer.Option(min=1, help="Prefill FLOPs are the mean over so many; 32 if not given.")
    ] = None,
    cached_tokens: Annotated[
        int | None, typer.Option(min=0, help="Decode FLOPs are after so many; a full context if not given.")
    ] = None,
    capacity: Annotated[
        int | None, typer.Option(min=1, help="Of the KV cache, in tokens; block_size if not given.")
    ] = None,
    target: Annotated[
        Path | None, typer.Option(metavar="TARGET.yaml", help="Predict times and memory on this board.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="fp32, int8 or int4 to predict; all three if not given.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print exact parameters, bytes per precision, cache bytes, FLOPs; with --target times and memory too."""
    config = ModelConfig.from_yaml(model_file)
    result = account(config, prompt_tokens=prompt_tokens, cached_tokens=cached_tokens, kv_capacity=capacity)
    predicted = None
    if target is not None:
        predicted = predict(config, target, precision, prompt_tokens, cached_tokens, capacity)
    elif precision is not None:
        raise ConfigError("--precision needs --target: without one, all precisions are shown")
    if as_json:
        facts = {} if predicted is None else {"prediction": predicted.json()}
        print_json({"config": asdict(config), **asdict(result), **facts})
        return
    stdout.print(_sizes(result, str(model_file)))
    stdout.print(_work(result))
    stdout.print(
        f"KV cache: {result.kv_bytes_per_token:,} bytes a token, "
        f"{megabytes(result.kv_bytes)} for {result.kv_capacity} tokens\n"
        f"Activations: at most about {megabytes(result.activation_bytes)} "
        f"while {result.chunk_tokens} tokens of a prompt are read\n"
        f"FLOPs: prefill is the mean over a prompt of {result.prompt_tokens}, "
        f"decode is with {result.cached_tokens} tokens in the cache."
    )
    if predicted is not None:
        for part in predicted.shown():
            stdout.print(part)


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
