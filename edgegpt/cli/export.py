"""`edgegpt export CHECKPOINT --out FILE.onnx`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from edgegpt.cli.output import JsonOption, megabytes, out_file, print_json, stdout, steps, table
from edgegpt.errors import needs

if TYPE_CHECKING:
    from edgegpt_export.bit_allocation import Quantisation

CheckpointArgument = Annotated[
    Path,
    typer.Argument(metavar="CHECKPOINT", help="Folder with config.yaml, model.safetensors, tokenizer.json."),
]


def export(
    checkpoint: CheckpointArgument,
    out: Annotated[Path, typer.Option(metavar="FILE.onnx", parser=out_file, help="The file to make.")],
    precision: Annotated[str, typer.Option(help="fp32, int8, int4, or auto: mixed within a limit.")] = "fp32",
    max_mb: Annotated[float | None, typer.Option(help="auto: maximum file size in MB.")] = None,
    max_kl: Annotated[
        float | None, typer.Option(help="auto: maximum KL divergence from PyTorch, in nats.")
    ] = None,
    kv_cache: Annotated[str, typer.Option(help="fp32, or int8 for a quarter of the memory.")] = "fp32",
    data: Annotated[
        Path | None,
        typer.Option(metavar="DATA.jsonl", help="Examples for calibration and to compare answers by."),
    ] = None,
    target: Annotated[
        str, typer.Option(help="engine: fastest on the robot; portable: standard ops for other runtimes.")
    ] = "engine",
    as_json: JsonOption = False,
) -> None:
    """Build an ONNX file, verify it against PyTorch, and only then give it its name."""
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
    stdout.print(f"Verified: {report.evidence.summary()}")


def recipe_table(quantisation: "Quantisation") -> Table:
    """Return a table with a row for each matrix: its bits, and the KL of quantising it alone."""
    why = quantisation.why
    limit = ", ".join(f"{name} {value:g}" for name, value in why["limit"].items())
    rows = []
    for name, bits in quantisation.bits.items():
        alone = why["kl_of_one_matrix_alone"][name]
        rows.append([name, str(bits), *(f"{alone[n]:.1e}" if n in alone else "-" for n in ("4", "8"))])
    title = f"bits for {limit}: KL {why['kl']:.2g} nats on {why['measured_on']}"
    return table(title, ["matrix", "bits", "KL of 4 alone", "KL of 8 alone"], rows)
