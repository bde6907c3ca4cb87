"""`edgegpt plan --budget BUDGET.yaml`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgegpt.cli.extras import needs
from edgegpt.cli.out_file import check_out_file
from edgegpt.cli.output import JsonOption, print_json, stderr, stdout
from edgegpt.cli.progress import steps
from edgegpt.errors import BudgetError, ConfigError

if TYPE_CHECKING:
    from edgegpt.planner.finalists import Finalist
    from edgegpt.planner.plan import Plan
    from edgegpt.planner.search import Rated
    from edgegpt.planner.space import Space
    from edgegpt.target import Target


def plan(
    budget: Annotated[Path, typer.Option(metavar="BUDGET.yaml", help="The limits, as in configs/budgets/.")],
    target: Annotated[
        Path | None, typer.Option(metavar="TARGET.yaml", help="The board, from edgegpt profile.")
    ] = None,
    context: Annotated[int, typer.Option(help="The least context that is needed, in tokens.")] = 256,
    vocab_size: Annotated[
        int | None, typer.Option(help="Of a tokenizer that is there already; else it is planned.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="fp32, int8 or int4; all are tried if not given.")
    ] = None,
    finalists: Annotated[
        int, typer.Option(min=0, max=10, help="So many are built and measured if the target is this machine.")
    ] = 3,
    out: Annotated[
        Path | None, typer.Option(metavar="MODEL.yaml", help="Write the best model's config.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes that search; as many as there are cores if not given.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Search on a Ray cluster: its host:port, auto or local."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the strongest models that a budget allows, before any is trained."""
    from edgegpt.budget import Budget
    from edgegpt.measure.machine import machine
    from edgegpt.planner.plan import plan as search
    from edgegpt.planner.space import space_of
    from edgegpt.target import Target

    if out is not None:
        check_out_file("--out", out, (".yaml", ".yml"))
    if ray is not None and workers is not None:
        raise ConfigError(f"--ray and --workers exclude each other, got {ray} and {workers}")
    limits = Budget.from_yaml(budget)
    board = None if target is None else Target.from_yaml(target)
    prompt_tokens = 32 if limits.ttft_ms is None else limits.ttft_ms.prompt_tokens
    space = space_of(context=context, prompt_tokens=prompt_tokens, vocab_size=vocab_size, precision=precision)
    with steps() as on_step, needs("ray"):
        planned = search(
            limits,
            space,
            target=board,
            workers=machine().available_cores if workers is None else workers,
            ray=ray,
            on_share=lambda share: on_step(f"searching, {share:.0%} done"),
        )
        measured = _finalists(planned, board, finalists, on_step)
    chosen = _chosen(planned, measured)
    _show(planned, space, board, measured, chosen, as_json)
    if chosen is None:
        worst = measured[0]
        raise BudgetError(
            f"none of {len(measured)} finalists keeps the budget {limits.name!r}; the first breaks "
            f"{', '.join(worst.broken(planned.limits))}; profile this machine again, or try more --finalists"
        )
    if out is not None:
        from edgegpt.atomic import write_text
        from edgegpt.planner.written import model_yaml

        write_text(out, model_yaml(planned, chosen, board))
        stderr.print(f"Written: {out}")


def _finalists(planned: "Plan", target: "Target | None", n: int, on_step: object) -> "list[Finalist]":
    """Measured where the target is this machine, so that its promise can be kept here."""
    from edgegpt.prediction import is_here

    if target is None or not n or not is_here(target):
        return []
    with needs("plan"):
        from edgegpt_export.random_file import write_random_file
    from edgegpt.planner.finalists import measure_finalists

    best = planned.found.best[:n]
    return list(measure_finalists(best, planned.limits, target.threads, write_random_file, on_step))  # type: ignore[arg-type]


def _chosen(planned: "Plan", measured: "list[Finalist]") -> "Rated | None":
    """The strongest that kept the budget when it was measured, or the strongest."""
    if not measured:
        return planned.found.best[0]
    return next((finalist.rated for finalist in measured if finalist.keeps(planned.limits)), None)


def _show(
    planned: "Plan",
    space: "Space",
    target: "Target | None",
    measured: "list[Finalist]",
    chosen: "Rated | None",
    as_json: bool,
) -> None:
    from edgegpt.cli import plan_tables

    if as_json:
        print_json(plan_tables.plan_json(planned, target, measured, chosen))
        return
    for part in plan_tables.plan_tables(planned, space, target, measured, chosen):
        stdout.print(part)
