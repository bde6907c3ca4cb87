"""`edgegpt check FILE.onnx --budget BUDGET.yaml`."""

from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from edgegpt.cli.output import FileArgument, JsonOption, print_json, stderr, stdout, table

if TYPE_CHECKING:
    from edgegpt.check import Check
    from edgegpt.verdict import Row


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
    from edgegpt.errors import BudgetError

    limits = Budget.from_yaml(budget)
    with stderr.status("starting") as status:
        checked = run(
            file,
            limits,
            threads=threads,
            processes=processes,
            seconds=seconds,
            on_step=lambda step: status.update(Text(step)),
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


def sentence(row: "Row") -> str:
    """`token_ms.p50 is 2.31 (2.25 to 2.4), the limit is 2`."""
    bound = "the least is" if row.at_least else "the limit is"
    return f"{row.name} is {measured(row)}, {bound} {limit(row)}"


def limit(row: "Row") -> str:
    """As people write it: `5,000,000` or `0.9`."""
    return f"{row.limit:,.12g}"


def measured(row: "Row") -> str:
    """The figure and its interval, where it has one."""
    estimate = row.estimate
    if estimate is None:
        return "not measured"
    value, low = _number(estimate.value), _number(estimate.low)
    high = "?" if isinf(estimate.high) else _number(estimate.high)
    return value if value == low == high else f"{value} ({low} to {high})"


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.01 else f"{value:.1g}"


def _print(checked: "Check") -> None:
    budget, machine = checked.budget, checked.machine
    lines = [
        [
            row.name,
            f"{'at least ' if row.at_least else ''}{limit(row)}",
            measured(row),
            "" if row.margin is None else f"{row.margin:+,.0%}",
            row.verdict.value,
        ]
        for row in checked.rows
    ]
    title = f"{checked.path} against {budget.name}"
    columns = ["limit", "allowed", "measured (95 % interval)", "margin", "verdict"]
    result = table(title, columns, lines)
    result.columns[0].no_wrap = True  # a name that is folded cannot be searched for
    stdout.print(result)
    if checked.processes:
        threads = "1 thread" if checked.threads == 1 else f"{checked.threads} threads"
        versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
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
