"""`edgegpt report FILE.onnx --out report.html`."""

from pathlib import Path
from typing import Annotated

import typer

from edgegpt.budget import doubt
from edgegpt.cli.options import check_out_file, out_file
from edgegpt.cli.output import FileArgument, JsonOption, megabytes, print_json, stdout
from edgegpt.cli.progress import steps
from edgegpt.errors import BudgetError, MeasureError, VerificationError, needs
from edgegpt.measure import noise_sentence


def report(
    file: FileArgument,
    out: Annotated[Path, typer.Option(metavar="FILE.html", parser=out_file, help="The page to write.")],
    budget: Annotated[
        Path | None, typer.Option(metavar="BUDGET.yaml", help="Check the file against this budget.")
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            "--profile",
            "--target",
            metavar="BOARD.yaml",
            help="Board profile, for predictions and for peak arithmetic in the roofline.",
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="CPU threads for onnxruntime (default: the budget's, or 1).")
    ] = None,
    seconds: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=3600.0,
            help="Measuring time, as for `bench`; a budget takes one and a half times as much in addition.",
        ),
    ] = 10.0,
    as_json: JsonOption = False,
) -> None:
    """Measure a file and write one HTML page about it, to attach to a release.

    Exits with 1, after writing the page, if a check failed or a limit of the budget is broken.
    """
    check_out_file("--out", out, (".html", ".htm"))
    with needs("report"):
        from edgegpt.report import save_page
    from edgegpt.report import make_report

    with steps() as on_step:
        made = make_report(
            file,
            out,
            budget=budget,
            profile=profile,
            threads=threads,
            seconds=seconds,
            on_step=on_step,
        )
        try:
            save_page(made, out)
        except OSError as e:
            raise MeasureError(f"--out cannot write {out}: {e.strerror or e}") from e
    if as_json:
        print_json(made.to_json())
    else:
        result = "passed" if made.passed else "failed"
        noise = f"\n{noise_sentence(made.noise)}." if made.noise else ""
        stdout.print(f"{out}: {megabytes(out.stat().st_size)}, {result}{noise}")
    if made.unproved:
        raise VerificationError(f"{file} failed its checks: {'; '.join(made.unproved)}")
    if made.broken:
        remark = "" if made.checked is None else doubt(made.checked.broken, made.checked.noise)
        raise BudgetError(f"{file} falls short of the budget: {'; '.join(made.broken)}{remark}")
