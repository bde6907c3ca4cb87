"""`edgegpt plan --budget BUDGET.yaml`.

A plan as tables and sentences for people, and as JSON.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import RenderableType

from edgegpt.budget import plain
from edgegpt.cli.options import check_out_file, out_file, schema_comment
from edgegpt.cli.output import JsonOption, print_json, stderr, stdout, table
from edgegpt.cli.progress import steps
from edgegpt.errors import BudgetError, ConfigError, ImpossibleBudgetError, needs
from edgegpt.measure import noise_remark, noise_sentence, threads_text
from edgegpt.planner import TOKENS_PER_PARAMETER, PlanResult, describe
from edgegpt.prediction import caveats

if TYPE_CHECKING:
    from edgegpt.measure import Machine
    from edgegpt.planner import Finalist, FinalistCheck, PlanLimits, PlanResult, RankedCandidate, Space
    from edgegpt.prediction import Target


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
    from edgegpt.budget import Budget
    from edgegpt.measure import this_machine
    from edgegpt.planner import plan_models as search, prompt_tokens_of, prove, space_of
    from edgegpt.prediction import Target

    if out is not None:
        check_out_file("--out", out, (".yaml", ".yml"))
    if ray is not None and workers is not None:
        raise ConfigError(f"--ray and --workers exclude each other, got {ray} and {workers}")
    limits = Budget.from_yaml(budget)
    board = None if target is None else Target.from_yaml(target)
    space = space_of(
        context=context, prompt_tokens=prompt_tokens_of(limits), vocab_size=vocab_size, precision=precision
    )
    before = this_machine()  # the search would count as load
    with _told(board, as_json), steps() as on_step, needs("ray"):
        search_with = partial(
            search,
            limits,
            space,
            target=board,
            workers=this_machine().available_cores if workers is None else workers,
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
            way_out = f"plan again on a quiet machine, {way_out}{noise_remark(proof.noise)}"
        raise BudgetError(
            f"none of {len(proof.measured)} finalists keeps the budget {limits.name!r}, the nearest has "
            f"{proof.shortfall(planned.limits)}; {way_out}"
        )
    if out is not None:
        from edgegpt.files import write_text
        from edgegpt.planner import model_yaml

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
    planned: "PlanResult", target: "Target | None", n: int, on_step: Callable[[str], None], before: "Machine"
) -> "Iterable[Finalist]":
    """Measured where the target is this machine, so that its promise can be kept here."""
    from edgegpt.prediction import is_here

    if target is None or not n or not is_here(target):
        return ()
    with needs("plan"):
        from edgegpt_export.synthetic import write_random_file
    from edgegpt.planner import measure_finalists

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


def _show(
    planned: "PlanResult", space: "Space", target: "Target | None", proof: "FinalistCheck", as_json: bool
) -> None:

    if as_json:
        print_json(plan_json(planned, target, proof))
        return
    for part in plan_tables(planned, space, target, proof):
        stdout.print(part)


_FRONT = 12  # rows
_RULE = (
    "Ranked by (8.8e13 / N) ^ 0.076, N the parameters of the blocks (Kaplan et al. 2020); a shape with "
    "n_embd / n_layer = 715 weighs 3 % more than one with 33 (the same), others by a parabola over the "
    "logarithm of that ratio, too deep as too wide (our assumption); what few bits add to the loss was "
    "measured on two small models. It orders models, it does not foretell a loss."
)


def plan_tables(
    planned: PlanResult, space: "Space", target: "Target | None", proof: "FinalistCheck"
) -> Iterator[RenderableType]:
    """The strongest, the front, the finalists, and what is not in them."""
    found, limits = planned.found, planned.limits
    timed = target is not None
    yield f"{planned.budget.name}: {_held(limits)}; {_board(target)}"
    few, many = (f"{count / 1e6:g}" for count in space.parameters)
    yield f"{found.kept:,} of {found.seen:,} models of {few} to {many} M parameters keep it.\n"
    yield _models("The strongest", found.best, timed)
    yield (
        "Model is layers x width, ctx the context, M the parameters in millions, MB the file with what its "
        "export adds" + (", first and token medians in ms, RSS in MB.\n" if timed else ".\n")
    )
    front = _thinned(found.front)
    part = f", {len(front)} of {len(found.front)}" if len(front) < len(found.front) else ""
    yield _models(f"What {'less time' if timed else 'fewer bytes'} costs (Pareto front{part})", front, timed)
    yield from _measured(planned, proof)
    yield _RULE
    if limits.left_out:
        yield (
            f"Not planned for: {', '.join(limits.left_out)}; hold the trained file to them, edgegpt check."
        )
    if target is None and "peak_rss_mb" in limits.values:
        yield "peak_rss_mb is the least a process needs; with --target it is predicted."
    for caveat in plan_caveats(planned, target):
        yield f"Careful: {caveat}."
    if proof.chosen is not None:
        parameters = proof.chosen.figures["parameters"]
        yield (
            f"\nChosen: {describe(proof.chosen)}; {parameters:,.0f} parameters, which want some "
            f"{TOKENS_PER_PARAMETER * parameters / 1e6:,.0f} M tokens of training (Hoffmann et al. 2022)"
        )


def _held(limits: "PlanLimits") -> str:
    """As `artifact_mb 4, peak_rss_mb 2147 (the board's memory)`."""
    parts = {name: f"{name} {plain(value)}" for name, value in limits.values.items()}
    if limits.memory_of is not None:
        parts["peak_rss_mb"] += f" (the {limits.memory_of}'s memory)"
    return ", ".join(parts.values())


def _board(target: "Target | None") -> str:
    if target is None:
        return "no target, sizes alone"
    return f"{target.name}, {threads_text(target.threads)}"


def _measured(planned: PlanResult, proof: "FinalistCheck") -> Iterator[RenderableType]:
    """What was built, and what was made of it."""
    if not proof.measured:
        return
    yield _finalists_table(planned, proof.measured)
    if proof.noise:
        yield f"{noise_sentence(proof.noise)}."
    if proof.slower:
        times = ", ".join(f"{name} {factor:.3g}" for name, factor in proof.slower.items())
        yield f"Searched once more, since the first finalists took more than was predicted, times {times}."


def plan_caveats(planned: PlanResult, target: "Target | None") -> tuple[str, ...]:
    """What stands against trusting it, a sentence each."""
    if target is None:
        return ()
    found = caveats(target)
    if target.threads != planned.budget.threads:
        found += (
            f"the target was measured with {target.threads} threads, the budget allows "
            f"{planned.budget.threads}; times are predicted for {target.threads}",
        )
    return found


def plan_json(planned: PlanResult, target: "Target | None", proof: "FinalistCheck") -> dict[str, Any]:
    """For machines."""
    return {
        "budget": planned.budget.name,
        "target": None if target is None else target.name,
        "limits": dict(planned.limits.values),
        "not_planned_for": list(planned.limits.left_out),
        "models_seen": planned.found.seen,
        "models_kept": planned.found.kept,
        "best": [rated.json() for rated in planned.found.best],
        "front": [rated.json() for rated in planned.found.front],
        "finalists": [
            {
                **finalist.rated.json(),
                "measured": finalist.measured,
                "broken": list(finalist.broken(planned.limits)),
                "noise": list(finalist.noise),
            }
            for finalist in proof.measured
        ],
        "slower_than_predicted": proof.slower,
        "chosen": None if proof.chosen is None else proof.chosen.json(),
        "caveats": list(plan_caveats(planned, target)),
    }


def _thinned(front: "Sequence[RankedCandidate]") -> "Sequence[RankedCandidate]":
    """At most _FRONT of them, both ends among them."""
    if len(front) <= _FRONT:
        return front
    return [front[round(i * (len(front) - 1) / (_FRONT - 1))] for i in range(_FRONT)]


def _models(title: str, models: "Sequence[RankedCandidate]", timed: bool) -> RenderableType:
    rows = []
    for rated in models:
        c, found = rated.candidate.config, rated.figures
        row = [
            f"{c.n_layer} x {c.n_embd}",
            str(c.n_head),
            str(c.vocab_size),
            str(c.block_size),
            rated.candidate.precision,
            f"{found['parameters'] / 1e6:.2f}",
            f"{found['artifact_mb']:.1f}",
        ]
        if timed:
            row += [f"{found['ttft_ms.p50']:.1f}", f"{found['token_ms.p50']:.2f}"]
            row += [f"{found['peak_rss_mb']:.0f}"]
        rows.append([*row, f"{rated.loss:.3f}"])
    columns = ["model", "heads", "vocab", "ctx", "bits", "M", "MB"]
    columns += ["first", "token", "RSS"] if timed else []
    result = table(title, [*columns, "rank"], rows)
    result.box, result.show_edge, result.padding = SIMPLE_HEAD, False, (0, 1, 0, 0)  # fits into 80 columns
    result.columns[0].no_wrap = True
    return result


def _finalists_table(planned: PlanResult, measured: "Sequence[Finalist]") -> RenderableType:
    """A row a finalist and limit."""
    rows = []
    for i, finalist in enumerate(measured):
        broken = finalist.broken(planned.limits)
        for name, limit in planned.limits.values.items():
            if name in finalist.measured:
                predicted, found = finalist.rated.figures[name], finalist.measured[name]
                verdict = "kept" if found <= limit else "broken" if name in broken else "noise"
                rows.append([f"{i + 1}: {name}", f"{limit:.4g}", f"{predicted:.4g}", f"{found:.4g}", verdict])
    columns = ["limit", "allowed", "predicted", "measured", ""]
    result = table("Finalists, random weights, on this machine", columns, rows)
    result.columns[0].no_wrap = True
    return result
