"""`edgegpt check FILE.onnx --budget BUDGET.yaml`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD

from edgegpt.cli.output import FileArgument, JsonOption, print_json, stdout, table
from edgegpt.cli.progress import steps
from edgegpt.errors import BudgetError
from edgegpt.row_text import limit, margin, measured, sentence, threads_text, versions_text

if TYPE_CHECKING:
    from edgegpt.check import Check


def check(
    file: FileArgument,
    budget: Annotated[Path, typer.Option(metavar="BUDGET.yaml", help="The limits, as in configs/budgets/.")],
    threads: Annotated[
        int | None, typer.Option(help="CPU threads of onnxruntime; the budget's if not given.")
    ] = None,
    processes: Annotated[int, typer.Option(help="Fresh processes that measure, one after another.")] = 6,
    seconds: Annotated[float, typer.Option(help="Of measuring times in each process.")] = 2.5,
    as_json: JsonOption = False,
) -> None:
    """Measure a file against the limits of a budget.

    A limit is broken only when the whole 95 % interval lies beyond it.
    """
    from edgegpt.budget import Budget
    from edgegpt.check import check as run
    from edgegpt.check import check_json

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
        print_json(check_json(checked))
    else:
        _print(checked)
    if checked.broken:
        doubt = " (this machine was not quiet while it measured)" if checked.noise else ""
        raise BudgetError(
            f"{file} falls short of the budget {limits.name!r}: "
            f"{'; '.join(map(sentence, checked.broken))}{doubt}"
        )


def _print(checked: "Check") -> None:
    budget, machine = checked.budget, checked.machine
    lines = [
        [
            row.name,
            f"{'at least ' if row.at_least else ''}{limit(row)}",
            measured(row),
            margin(row),
            row.verdict.value,
        ]
        for row in checked.rows
    ]
    title = f"{checked.path} against {budget.name}"
    columns = ["limit", "allowed", "measured (95 %)", "margin", "verdict"]
    result = table(title, columns, lines)
    result.box, result.pad_edge = SIMPLE_HEAD, False  # narrow, so that it fits into 80 columns
    result.columns[0].no_wrap = True  # a name that is folded cannot be searched for
    stdout.print(result)
    if checked.processes:
        threads = threads_text(checked.threads)
        versions = versions_text(machine.versions)
        stdout.print(
            f"{checked.processes} processes, {threads}, on {machine.board or machine.cpu}; {versions}"
        )
    if budget.board is not None:
        stdout.print(f"The budget is for: {budget.board.description}")
        if goals := budget.board.never_measured:
            stdout.print(f"Goals that nobody has measured on that board yet: {', '.join(goals)}")
    if checked.noise:
        stdout.print(
            f"This machine was not quiet, so its times are upper bounds: {'; '.join(checked.noise)}."
        )
