"""`edgegpt plan --budget BUDGET.yaml`: search the strongest models that a budget allows."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from edgegpt.budget import plain
from edgegpt.cli.output import (
    JsonOption,
    check_out_file,
    out_file,
    print_json,
    schema_comment,
    stderr,
    stdout,
    steps,
    table,
)
from edgegpt.errors import BudgetError, ConfigError, ImpossibleBudgetError, needs
from edgegpt.measure import noise_remark, noise_sentence, threads_text
from edgegpt.planner import TOKENS_PER_PARAMETER, PlanResult, describe
from edgegpt.prediction import caveats

if TYPE_CHECKING:
    from edgegpt.measure import Machine, OnStep
    from edgegpt.planner import Finalist, FinalistCheck, RankedCandidate
    from edgegpt.prediction import Target

_FRONT_ROWS = 12
_RULE = (
    "Ranked by (8.8e13 / N) ^ 0.076, where N is the number of parameters of the blocks (Kaplan et al. 2020); "
    "a shape with n_embd / n_layer = 715 is 3 % worse than one with 33 (the same), others by a parabola over "
    "the logarithm of that ratio, too deep as too wide (our assumption); the loss of quantisation was "
    "measured on two small models. The rank orders models, it does not predict a loss."
)


def plan(
    budget: Annotated[Path, typer.Option(metavar="BUDGET.yaml", help="Limits, as in configs/budgets/.")],
    profile: Annotated[
        Path | None,
        typer.Option(
            "--profile", "--target", metavar="PROFILE.yaml", help="The board, from `edgegpt profile`."
        ),
    ] = None,
    context: Annotated[int, typer.Option(help="Minimum context length in tokens.")] = 256,
    vocab_size: Annotated[
        int | None, typer.Option(help="Fix the vocabulary size to an existing tokenizer's.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="Plan for fp32, int8 or int4 only (default: all).")
    ] = None,
    finalists: Annotated[
        int,
        typer.Option(
            min=0,
            max=10,
            help="Number of candidates to build and measure (only if the profile is of this machine).",
        ),
    ] = 3,
    out: Annotated[
        Path | None,
        typer.Option(metavar="MODEL.yaml", parser=out_file, help="Write the best model's config."),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Search processes (default: number of cores).")] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Search on Ray: ray://host:port, host:port, auto or local."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the strongest models that a budget allows, before any is trained."""
    from edgegpt.budget import Budget
    from edgegpt.measure import this_machine
    from edgegpt.planner import check_finalists, plan_models, prompt_tokens_of, space_of
    from edgegpt.prediction import Target

    if out is not None:
        check_out_file("--out", out, (".yaml", ".yml"))
    if ray is not None and workers is not None:
        raise ConfigError(f"--ray and --workers exclude each other, got {ray} and {workers}")
    limits = Budget.from_yaml(budget)
    target = None if profile is None else Target.from_yaml(profile)
    space = space_of(
        context=context, prompt_tokens=prompt_tokens_of(limits), vocab_size=vocab_size, precision=precision
    )
    before = this_machine()  # the search would count as load
    with _infeasible_as_json(target, as_json), steps() as on_step, needs("ray"):
        search = partial(
            plan_models,
            limits,
            space,
            target=target,
            workers=before.available_cores if workers is None else workers,
            ray=ray,
            on_share=lambda share: on_step(f"searching, {share:.0%} done"),
        )
        planned = search()
        check = check_finalists(
            planned,
            lambda plan: _finalists(plan, target, finalists, on_step, before),
            lambda slower: search(slower=slower),
        )
    if as_json:
        print_json(plan_json(planned, target, check))
    else:
        few, many = (f"{count / 1e6:g}" for count in space.parameters)
        stdout.print(
            f"{planned.found.kept:,} of {planned.found.seen:,} models of {few} to {many} M parameters keep "
            f"the budget.\n"
        )
        show(planned, target, check)
    if check.chosen is None:
        way_out = "profile this machine again, or raise the limit"
        if check.noise:
            way_out = f"plan again on a quiet machine, {way_out}{noise_remark(check.noise)}"
        raise BudgetError(
            f"none of {len(check.measured)} finalists keeps the budget {limits.name!r}, the nearest has "
            f"{check.shortfall(planned.limits)}; {way_out}"
        )
    if out is not None:
        from edgegpt.files import write_text
        from edgegpt.planner import model_yaml

        write_text(out, schema_comment(out, "model") + model_yaml(planned, check.chosen, target))
        stderr.print(f"Written: {out}")


@contextmanager
def _infeasible_as_json(target: "Target | None", as_json: bool) -> Iterator[None]:
    """Print an infeasible budget as JSON too, as it is a result; its sentence follows on stderr."""
    try:
        yield
    except ImpossibleBudgetError as e:
        if as_json:
            print_json({"message": str(e), "target": None if target is None else target.name, **e.facts})
        raise


def _finalists(
    planned: PlanResult, target: "Target | None", n: int, on_step: "OnStep", before: "Machine"
) -> "Iterable[Finalist]":
    """Return the measured finalists; none if the profile is not of this machine."""
    from edgegpt.prediction import is_here

    if target is None or not n or not is_here(target):
        return ()
    with needs("plan"):
        from edgegpt_export.synthetic import write_random_file
    from edgegpt.planner import measure_finalists

    return measure_finalists(
        planned.found.best[:n], planned.limits, target.threads, write_random_file, on_step, before=before
    )


def plan_json(planned: PlanResult, target: "Target | None", check: "FinalistCheck") -> dict[str, Any]:
    """Return the JSON output."""
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
                "broken": finalist.broken(planned.limits),
                "noise": finalist.noise,
            }
            for finalist in check.measured
        ],
        "slower_than_predicted": check.slower,
        "chosen": None if check.chosen is None else check.chosen.json(),
        "caveats": _caveats(planned, target),
    }


def show(planned: PlanResult, target: "Target | None", check: "FinalistCheck") -> None:
    """Print the strongest models, the Pareto front, the finalists and remarks."""
    limits, front = planned.limits, planned.found.front
    kept = ", ".join(f"{name} {plain(value)}" for name, value in limits.values.items())
    memory = "" if limits.memory_of is None else f" (peak_rss_mb is the {limits.memory_of}'s memory)"
    board = "no profile, sizes only" if target is None else f"{target.name}, {threads_text(target.threads)}"
    stdout.print(f"{planned.budget.name}: {kept}{memory}; {board}")
    stdout.print(_models("The strongest", planned.found.best))
    rows = _thinned(front)
    title = f"Pareto front of strength and {'file size' if target is None else 'time'}"
    stdout.print(_models(title if len(rows) == len(front) else f"{title}, {len(rows)} of {len(front)}", rows))
    stdout.print(
        "model: layers x width; ctx: context; M: parameters in millions; MB: exported file; first and token: "
        "medians in ms; RSS: peak in MB.\n"
    )
    if check.measured:
        stdout.print(_finalists_table(planned, check.measured))
    if check.noise:
        stdout.print(f"{noise_sentence(check.noise)}.")
    if check.slower:
        times = ", ".join(f"{name} {factor:.3g}" for name, factor in check.slower.items())
        stdout.print(f"Searched again, since the finalists took longer than predicted: {times} times.")
    stdout.print(_RULE)
    if limits.left_out:
        stdout.print(
            f"Not planned for: {', '.join(limits.left_out)}; run `edgegpt check` on the trained file."
        )
    if target is None and "peak_rss_mb" in limits.values:
        stdout.print("peak_rss_mb is a lower bound; with --profile it is predicted.")
    for caveat in _caveats(planned, target):
        stdout.print(f"Warning: {caveat}.")
    if check.chosen is not None:
        parameters = check.chosen.figures["parameters"]
        stdout.print(
            f"\nChosen: {describe(check.chosen)}; {parameters:,.0f} parameters, to be trained on about "
            f"{TOKENS_PER_PARAMETER * parameters / 1e6:,.0f} M tokens (Hoffmann et al. 2022)"
        )


def _caveats(planned: PlanResult, target: "Target | None") -> tuple[str, ...]:
    if target is None:
        return ()
    found = caveats(target)
    if target.threads != planned.budget.threads:
        found += (
            f"the profile was measured with {threads_text(target.threads)}, the budget allows "
            f"{planned.budget.threads}; times are predicted for {target.threads}",
        )
    return found


def _thinned(front: "Sequence[RankedCandidate]") -> "Sequence[RankedCandidate]":
    """Return at most _FRONT_ROWS of the models, both ends among them."""
    if len(front) <= _FRONT_ROWS:
        return front
    return [front[round(i * (len(front) - 1) / (_FRONT_ROWS - 1))] for i in range(_FRONT_ROWS)]


def _models(title: str, models: "Sequence[RankedCandidate]") -> Table:
    rows = []
    for rated in models:
        c, figures = rated.candidate.config, rated.figures
        sizes = (f"{figures['parameters'] / 1e6:.2f}", f"{figures['artifact_mb']:.1f}")
        times = [
            f"{figures[name]:.{digits}f}" if name in figures else "-"
            for name, digits in (("ttft_ms.p50", 1), ("token_ms.p50", 2), ("peak_rss_mb", 0))
        ]
        shape = (f"{c.n_layer} x {c.n_embd}", str(c.n_head), str(c.vocab_size), str(c.block_size))
        rows.append([*shape, rated.candidate.precision, *sizes, *times, f"{rated.loss:.3f}"])
    columns = ["model", "heads", "vocab", "ctx", "bits", "M", "MB", "first", "token", "RSS", "rank"]
    result = table(title, columns, rows)
    result.box, result.show_edge, result.padding = SIMPLE_HEAD, False, (0, 1, 0, 0)  # fits into 80 columns
    result.columns[0].no_wrap = True
    return result


def _finalists_table(planned: PlanResult, measured: "Sequence[Finalist]") -> Table:
    rows = []
    for i, finalist in enumerate(measured):
        broken = finalist.broken(planned.limits)
        for name, limit in planned.limits.values.items():
            if name in finalist.measured:
                predicted, found = finalist.rated.figures[name], finalist.measured[name]
                verdict = "kept" if found <= limit else "broken" if name in broken else "noise"
                rows.append([f"{i + 1}: {name}", f"{limit:.4g}", f"{predicted:.4g}", f"{found:.4g}", verdict])
    columns = ["limit", "allowed", "predicted", "measured", ""]
    return table("Finalists, random weights, on this machine", columns, rows)
