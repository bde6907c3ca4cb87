"""`edgegpt params MODEL.yaml`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from edgegpt.accounting import Account, account
from edgegpt.cli.output import JsonOption, megabytes, print_json, stdout, table
from edgegpt.config.model import ModelConfig
from edgegpt.errors import ConfigError


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
        from edgegpt.cli.predicted import predict

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
