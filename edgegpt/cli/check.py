"""`edgegpt check FILE.onnx --budget BUDGET.yaml`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD

from edgegpt.budget import HEADER, cells, doubt, remarks, sentence
from edgegpt.cli.output import FileArgument, JsonOption, print_json, stdout, steps, table
from edgegpt.errors import BudgetError
from edgegpt.measure import threads_text, versions_text

if TYPE_CHECKING:
    from edgegpt.budget import Check


def check(
    file: FileArgument,
    budget: Annotated[Path, typer.Option(metavar="BUDGET.yaml", help="The limits, as in configs/budgets/.")],
    threads: Annotated[
        int | None, typer.Option(help="CPU threads of onnxruntime; the budget's if not given.")
    ] = None,
    processes: Annotated[
        int, typer.Option(help="Number of fresh processes that measure, one after another.")
    ] = 6,
    seconds: Annotated[
        float,
        typer.Option(help="Seconds to measure per process (up to 10x if a p99 limit needs more samples)."),
    ] = 2.5,
    as_json: JsonOption = False,
) -> None:
    """Check a file against the limits of a budget.

    A limit is broken only if the whole 95 % interval exceeds it.
    """
    from edgegpt.budget import Budget, check_file as run

    limits = Budget.from_yaml(budget)
    with steps() as on_step:
        checked = run(
            file,
            limits,
            threads=threads,
            processes=processes,
            seconds=seconds,
            on_step=on_step,
        )
    if as_json:
        print_json(checked.to_json())
    else:
        _print(checked)
    if checked.broken:
        raise BudgetError(
            f"{file} falls short of the budget {limits.name!r}: "
            f"{'; '.join(map(sentence, checked.broken))}{doubt(checked.broken, checked.noise)}"
        )


def _print(checked: "Check") -> None:
    budget, machine = checked.budget, checked.machine
    result = table(f"{checked.path} against {budget.name}", HEADER, [cells(row) for row in checked.rows])
    result.box, result.pad_edge = SIMPLE_HEAD, False  # fits into 80 columns
    result.columns[0].no_wrap = True  # a name that is folded cannot be searched for
    stdout.print(result)
    if checked.processes:
        stdout.print(
            f"{checked.processes} processes, {threads_text(checked.threads)}, on "
            f"{machine.board or machine.cpu}; {versions_text(machine.versions)}"
        )
    for remark in remarks(checked):
        stdout.print(remark)
