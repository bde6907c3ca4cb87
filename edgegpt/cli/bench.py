"""`edgegpt bench FILE.onnx`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from edgegpt.cli.extras import needs
from edgegpt.cli.output import FileArgument, JsonOption, ThreadsOption, print_json, stderr, stdout
from edgegpt.cli.progress import measuring
from edgegpt.errors import MeasureError

_SUFFIXES = (".png", ".svg", ".pdf")


def bench(
    file: FileArgument,
    threads: ThreadsOption = 1,
    seconds: Annotated[
        float, typer.Option(min=0.0, max=3600.0, help="Measuring time; a slow model takes what it needs.")
    ] = 10.0,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw a picture too: .png, .svg or .pdf.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a file in fresh processes: first token, further tokens, load time, memory, bandwidth."""
    from edgegpt.measure.bench import bench as measure
    from edgegpt.measure.plan import Plan

    if plot is not None:
        _check_plot(plot)
        with needs("report"):
            from edgegpt.measure.plot import save_plot
    with measuring(visible=not as_json) as on_progress:
        result = measure(
            file, Plan(threads=threads, seconds=seconds, bandwidth=True), on_progress=on_progress
        )
    if as_json:
        from edgegpt.measure.bench_json import bench_json

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


def _check_plot(plot: Path) -> None:
    """Before a minute of measuring, not after it."""
    if plot.suffix.lower() not in _SUFFIXES:
        raise MeasureError(
            f"--plot must name a {', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]} file, got {plot}"
        )
    if not plot.parent.is_dir():
        raise MeasureError(f"--plot cannot write {plot}: the folder {plot.parent} does not exist")
    if not os.access(plot.parent, os.W_OK):
        raise MeasureError(f"--plot cannot write {plot}: the folder {plot.parent} is read-only")
    if plot.is_dir():
        raise MeasureError(f"--plot must name a file, and {plot} is a folder")
