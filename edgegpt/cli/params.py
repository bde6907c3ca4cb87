"""`edgegpt params MODEL.yaml`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from edgegpt.accounting import Account, account
from edgegpt.cli.output import JsonOption, megabytes, print_json, stdout, table
from edgegpt.config import ModelConfig


def params(
    model_file: Annotated[Path, typer.Argument(metavar="MODEL.yaml", help="The model's config.")],
    prompt_tokens: Annotated[int, typer.Option(min=1, help="Prefill FLOPs are the mean over so many.")] = 32,
    cached_tokens: Annotated[
        int | None, typer.Option(min=0, help="Decode FLOPs are after so many; a full context if not given.")
    ] = None,
    capacity: Annotated[
        int | None, typer.Option(min=1, help="Of the KV cache, in tokens; block_size if not given.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print exact parameters, bytes per precision, cache bytes and FLOPs of a config."""
    config = ModelConfig.from_yaml(model_file)
    result = account(config, prompt_tokens=prompt_tokens, cached_tokens=cached_tokens, kv_capacity=capacity)
    if as_json:
        print_json({"config": asdict(config), **asdict(result)})
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
