"""`edgegpt profile --out PROFILE.yaml`: measure this board for predictions."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgegpt.cli.output import (
    JsonOption,
    ThreadsOption,
    check_out_file,
    out_file,
    print_json,
    schema_comment,
    stdout,
    steps,
    table,
)
from edgegpt.errors import MeasureError, needs
from edgegpt.measure import noise_sentence, threads_text

if TYPE_CHECKING:
    from edgegpt.prediction import Target


def profile(
    out: Annotated[Path, typer.Option(metavar="PROFILE.yaml", parser=out_file, help="The file to write.")],
    name: Annotated[str | None, typer.Option(help="Board name (default: from the system).")] = None,
    threads: ThreadsOption = 1,
    seconds: Annotated[
        float, typer.Option(help="Seconds for times; fresh processes and slow models are added.")
    ] = 45.0,
    as_json: JsonOption = False,
) -> None:
    """Measure this board in one to three minutes, to predict and plan models for it."""
    check_out_file("--out", out, (".yaml", ".yml"))
    if name == "":
        raise MeasureError("--name must not be empty, got ''; leave it out for the system's name")
    with needs("plan"):
        from edgegpt_export import synthetic
        from edgegpt_export.synthetic import write_random_file
    from edgegpt.files import write_text
    from edgegpt.profiling import profile_board as measure

    with steps() as on_step:
        target = measure(
            synthetic, write_random_file, name=name, threads=threads, seconds=seconds, on_step=on_step
        )
    write_text(out, schema_comment(out, "target") + target.to_yaml())
    if as_json:
        print_json(target.model_dump())
        return
    _print(target)
    stdout.print(f"Written: {out}")


def _print(target: "Target") -> None:
    cpu = target.machine.board or target.machine.cpu
    board = cpu if target.name == cpu else f"{target.name}: {cpu}"
    stdout.print(f"{board}, {target.machine.cores} cores, measured with {threads_text(target.threads)}")
    rows = [[f"{row.working_set_mb:g}", f"{row.gb_s:.1f}"] for row in target.read_bandwidth]
    stdout.print(table("Read bandwidth", ["buffer, MB", "GB/s"], rows))
    rows = [
        [
            f"{row.bits}, {row.block or '-'}",
            f"{row.tokens}",
            f"{row.node_us:.2f}",
            f"{row.us_per_million_weights:.1f}",
        ]
        for row in target.products
        if row.tokens in (1, 64)
    ]
    columns = ["bits, block", "tokens", "per node, us", "per million weights, us"]
    stdout.print(table("Matrix products, weights in a near cache", columns, rows))
    if target.noise:
        stdout.print(f"{noise_sentence(target.noise, 'profile it again when it is')}.")
