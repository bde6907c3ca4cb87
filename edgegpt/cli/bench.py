"""`edgegpt bench FILE.onnx`."""

from pathlib import Path
from typing import Annotated

import typer

from edgegpt.cli.options import check_out_file, out_file
from edgegpt.cli.output import FileArgument, JsonOption, ThreadsOption, print_json, stderr, stdout
from edgegpt.cli.progress import measuring
from edgegpt.errors import MeasureError, needs

_SUFFIXES = (".png", ".svg", ".pdf")


def bench(
    file: FileArgument,
    threads: ThreadsOption = 1,
    seconds: Annotated[
        float, typer.Option(min=0.0, max=3600.0, help="Measuring time; a slow model takes what it needs.")
    ] = 10.0,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", parser=out_file, help="Draw a picture too: .png, .svg or .pdf."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a file in fresh processes: first token, further tokens, load time, memory, bandwidth."""
    from edgegpt.measure.bench import bench as measure
    from edgegpt.measure.spec import Plan

    if plot is not None:
        check_out_file("--plot", plot, _SUFFIXES)
        with needs("report"):
            from edgegpt.measure.plot import save_plot
    with measuring(visible=not as_json) as on_progress:
        result = measure(
            file, Plan(threads=threads, seconds=seconds, bandwidth=True), on_progress=on_progress
        )
    if as_json:
        from edgegpt.measure.bench import bench_json

        print_json(bench_json(result))
    else:
        from edgegpt.cli.bench_tables import bench_tables

        for part in bench_tables(result):
            stdout.print(part)
    if plot is not None:  # last: a full disk then loses the picture and not the figures
        try:
            save_plot(result, plot)
        except OSError as e:
            raise MeasureError(f"--plot cannot write {plot}: {e.strerror or e}") from e
        stderr.print(f"Picture: {plot.resolve()}")
