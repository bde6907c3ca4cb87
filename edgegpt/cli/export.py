"""`edgegpt export CHECKPOINT --out FILE.onnx`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from edgegpt.cli.evidence import evidence_sentence
from edgegpt.cli.options import out_file
from edgegpt.cli.output import JsonOption, megabytes, print_json, stdout
from edgegpt.cli.progress import steps
from edgegpt.cli.recipe import recipe_table
from edgegpt.errors import needs

CheckpointArgument = Annotated[
    Path,
    typer.Argument(metavar="CHECKPOINT", help="Folder with config.yaml, model.safetensors, tokenizer.json."),
]


def export(
    checkpoint: CheckpointArgument,
    out: Annotated[Path, typer.Option(metavar="FILE.onnx", parser=out_file, help="The file to make.")],
    precision: Annotated[str, typer.Option(help="fp32, int8, int4, or auto: a mix within a limit.")] = "fp32",
    max_mb: Annotated[
        float | None, typer.Option(help="Limit of auto: the best mix whose file has at most so many MB.")
    ] = None,
    max_kl: Annotated[
        float | None, typer.Option(help="Limit of auto: the smallest mix of at most so much KL, in nats.")
    ] = None,
    kv_cache: Annotated[str, typer.Option(help="fp32 or int8: a quarter of the memory.")] = "fp32",
    data: Annotated[
        Path | None,
        typer.Option(metavar="DATA.jsonl", help="Examples to compare answers by and to measure on."),
    ] = None,
    target: Annotated[
        str, typer.Option(help="engine: fastest on the robot; portable: standard ops for other runtimes.")
    ] = "engine",
    as_json: JsonOption = False,
) -> None:
    """Build the ONNX file, verify it against PyTorch, and only then give it its name."""
    with needs("export"):
        from edgegpt_export import export_checkpoint

    with steps() as on_step:
        report = export_checkpoint(
            checkpoint,
            out,
            precision=precision,
            target=target,
            kv_cache=kv_cache,
            max_mb=max_mb,
            max_kl=max_kl,
            data=data,
            on_step=on_step,
        )
    if as_json:
        print_json(
            {
                "path": str(report.path),
                "bytes": report.bytes,
                "seconds": report.seconds,
                "evidence": json.loads(report.evidence.to_json()),
                "recipe": json.loads(report.quantisation.to_json()),
            }
        )
        return
    if precision == "auto":
        stdout.print(recipe_table(report.quantisation))
    times = ", ".join(f"{phase} {seconds:.2f} s" for phase, seconds in report.seconds.items())
    stdout.print(f"{report.path}: {megabytes(report.bytes)}, {target}, {precision} ({times})")
    stdout.print(f"Verified: {evidence_sentence(report.evidence)}")
