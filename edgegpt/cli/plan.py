"""`edgegpt plan --budget BUDGET.yaml`."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgegpt.cli.options import check_out_file, out_file
from edgegpt.cli.output import JsonOption, print_json, stderr, stdout
from edgegpt.cli.progress import steps
from edgegpt.cli.schema_comment import schema_comment
from edgegpt.errors import BudgetError, ConfigError, ImpossibleBudgetError, needs
from edgegpt.measure.noise import quietness

if TYPE_CHECKING:
    from edgegpt.measure.machine import Machine
    from edgegpt.planner.finalists import Finalist, Proof
    from edgegpt.planner.planner import Plan
    from edgegpt.planner.space import Space
    from edgegpt.prediction.target import Target


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
        Path | None,
        typer.Option(metavar="MODEL.yaml", parser=out_file, help="Write the best model's config."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes that search; as many as there are cores if not given.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Search on Ray: ray://host:port, host:port, auto or local."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the strongest models that a budget allows, before any is trained."""
    from edgegpt.budget.budget import Budget
    from edgegpt.measure.machine import machine
    from edgegpt.planner.finalists import prove
    from edgegpt.planner.limits import prompt_tokens_of
    from edgegpt.planner.planner import plan as search
    from edgegpt.planner.space import space_of
    from edgegpt.prediction.target import Target

    if out is not None:
        check_out_file("--out", out, (".yaml", ".yml"))
    if ray is not None and workers is not None:
        raise ConfigError(f"--ray and --workers exclude each other, got {ray} and {workers}")
    limits = Budget.from_yaml(budget)
    board = None if target is None else Target.from_yaml(target)
    space = space_of(
        context=context, prompt_tokens=prompt_tokens_of(limits), vocab_size=vocab_size, precision=precision
    )
    before = machine()  # the search would count as load
    with _told(board, as_json), steps() as on_step, needs("ray"):
        search_with = partial(
            search,
            limits,
            space,
            target=board,
            workers=machine().available_cores if workers is None else workers,
            ray=ray,
            on_share=lambda share: on_step(f"searching, {share:.0%} done"),
            on_wait=_say_once(),
        )
        planned = search_with()
        proof = prove(
            planned,
            lambda plan: _finalists(plan, board, finalists, on_step, before),
            lambda slower: search_with(slower=slower),
        )
    _show(planned, space, board, proof, as_json)
    if proof.chosen is None:
        way_out = "profile this machine again, or raise the limit"
        if proof.noise:
            doubt = f"{quietness(proof.noise)} while it measured ({'; '.join(proof.noise)})"
            way_out = f"this machine {doubt}, so plan again when it is, or {way_out}"
        raise BudgetError(
            f"none of {len(proof.measured)} finalists keeps the budget {limits.name!r}, the nearest has "
            f"{proof.shortfall(planned.limits)}; {way_out}"
        )
    if out is not None:
        from edgegpt.files import write_text
        from edgegpt.planner.planner import model_yaml

        write_text(out, schema_comment(out, "model") + model_yaml(planned, proof.chosen, board))
        stderr.print(f"Written: {out}")


@contextmanager
def _told(target: "Target | None", as_json: bool) -> Iterator[None]:
    """That no model keeps the budget is a result for machines too; the sentence follows on stderr."""
    try:
        yield
    except ImpossibleBudgetError as e:
        if as_json:
            print_json({"message": str(e), "target": None if target is None else target.name, **e.facts})
        raise


def _finalists(
    planned: "Plan", target: "Target | None", n: int, on_step: Callable[[str], None], before: "Machine"
) -> "Iterable[Finalist]":
    """Measured where the target is this machine, so that its promise can be kept here."""
    from edgegpt.prediction.predict import is_here

    if target is None or not n or not is_here(target):
        return ()
    with needs("plan"):
        from edgegpt_export.random_file import write_random_file
    from edgegpt.planner.finalists import measure_finalists

    return measure_finalists(
        planned.found.best[:n], planned.limits, target.threads, write_random_file, on_step, before=before
    )


def _say_once() -> Callable[[str], None]:
    """Prints the first sentence of those it gets."""
    said: list[str] = []

    def say(sentence: str) -> None:
        if not said:
            stderr.print(f"edgegpt: {sentence}", markup=False, soft_wrap=True)
        said.append(sentence)

    return say


def _show(planned: "Plan", space: "Space", target: "Target | None", proof: "Proof", as_json: bool) -> None:
    from edgegpt.cli import plan_tables

    if as_json:
        print_json(plan_tables.plan_json(planned, target, proof))
        return
    for part in plan_tables.plan_tables(planned, space, target, proof):
        stdout.print(part)
