"""`edgegpt report FILE.onnx --out report.html`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgegpt.budget import doubt
from edgegpt.cli.options import check_out_file, out_file
from edgegpt.cli.output import FileArgument, JsonOption, megabytes, print_json, stdout
from edgegpt.cli.progress import steps
from edgegpt.errors import BudgetError, MeasureError, VerificationError, needs
from edgegpt.measure import noise_sentence

if TYPE_CHECKING:
    from edgegpt.report import Report


def report(
    file: FileArgument,
    out: Annotated[Path, typer.Option(metavar="FILE.html", parser=out_file, help="The page to make.")],
    budget: Annotated[
        Path | None, typer.Option(metavar="BUDGET.yaml", help="Hold the file to these limits too.")
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option(
            metavar="TARGET.yaml", help="A profile of this board: the roof of arithmetic, and predictions."
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="CPU threads of onnxruntime; the budget's, or 1, if not given.")
    ] = None,
    seconds: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=3600.0,
            help="Measuring time, as of `bench`; a budget takes one and a half times as much on top.",
        ),
    ] = 10.0,
    as_json: JsonOption = False,
) -> None:
    """Measure a file and write one page about it, to attach to a release.

    Exit code 1, after the page is written, where the file falls short of its proof or of the budget.
    """
    check_out_file("--out", out, (".html", ".htm"))
    with needs("report"):
        from edgegpt.report import save_page
    from edgegpt.report import gather, report_json

    with steps() as on_step:
        made = gather(
            file,
            out,
            budget=budget,
            target=target,
            threads=threads,
            seconds=seconds,
            on_step=on_step,
        )
        try:
            save_page(made, out)
        except OSError as e:
            raise MeasureError(f"--out cannot write {out}: {e.strerror or e}") from e
    if as_json:
        print_json(report_json(made))
    else:
        stdout.print(_sentence(made))
    if made.unproved:
        raise VerificationError(f"{file} fell short: {'; '.join(made.unproved)}")
    if made.broken:
        remark = "" if made.checked is None else doubt(made.checked.broken, made.checked.noise)
        raise BudgetError(f"{file} falls short of the budget: {'; '.join(made.broken)}{remark}")


def _sentence(made: "Report") -> str:
    out = made.options.out
    noise = f"\n{noise_sentence(made.noise)}." if made.noise else ""
    return f"{out}: {megabytes(out.stat().st_size)}, {'passed' if made.passed else 'fell short'}{noise}"
