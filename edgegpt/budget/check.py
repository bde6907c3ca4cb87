"""Hold one file to a budget: measure in fresh processes, judge each limit by its interval.

What a budget asks for, held against the file before a minute of measuring instead of after it.
"""

from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from edgegpt.accounting import kv_cache_bytes, parameter_count
from edgegpt.budget.budget import Budget
from edgegpt.budget.estimates import LEAST_PROCESSES, estimates, was_disturbed
from edgegpt.budget.memory import check_memory
from edgegpt.budget.sample_size import (
    MOST_SECONDS,
    SECONDS_OPTION,
    SecondsOption,
    advice,
    board_limits,
    check_plan,
    elsewhere,
    held_limits,
)
from edgegpt.budget.verdict import Estimate, Row, Verdict, rows
from edgegpt.config import ModelConfig
from edgegpt.errors import DataError, MeasureError
from edgegpt.examples import Pair, fitting_pairs, numbered_pairs, read_text
from edgegpt.files import is_stream
from edgegpt.measure import (
    Machine,
    MeasureSpec,
    OnStep,
    ProcessResult,
    check_threads,
    load_noise,
    measure_process,
    measured_noise,
    this_machine,
)
from edgegpt.runtime import ArtifactSummary, evaluate, load, summarize_artifact
from edgegpt.tokenizer import Tokenizer

SECONDS: Final = 2.5  # of measuring times, in each process; with rover enough for a sure p99 on a quiet core


@dataclass(frozen=True)
class Check:
    """A file beside a budget.

    Attributes:
        path: the file.
        budget: the limits.
        threads: that were measured with.
        machine: before the first process started.
        processes: how many measured; 0 where every limit could be counted.
        rows: one for each limit of the budget, and for the board's memory.
        noise: why the times are not to be trusted, one sentence each; empty on a quiet machine.
        advice: what would make the verdicts surer, one sentence each.
    """

    path: Path
    budget: Budget
    threads: int
    machine: Machine
    processes: int
    rows: tuple[Row, ...]
    noise: tuple[str, ...]
    advice: tuple[str, ...] = ()

    @property
    def broken(self) -> tuple[Row, ...]:
        """The limits that are broken for sure."""
        return tuple(row for row in self.rows if row.verdict is Verdict.BROKEN)


def check_file(
    path: str | Path,
    budget: Budget,
    *,
    threads: int | None = None,
    processes: int = LEAST_PROCESSES,
    seconds: float = SECONDS,
    option: SecondsOption = SECONDS_OPTION,
    before: Machine | None = None,
    on_step: OnStep = lambda _: None,
) -> Check:
    """Measure what the budget limits, and nothing else; what can be counted starts no process.

    Args:
        path: an .onnx file made by `edgegpt export`.
        budget: what it has to keep.
        threads: of onnxruntime; None is the budget's.
        processes: how many fresh processes measure, one after another, at least LEAST_PROCESSES.
        seconds: of measuring times in each; more samples make surer percentiles. Where a limit of a p99
            needs more for an upper bound, up to ten times as long.
        option: by which the caller was told the seconds, for advice.
        before: the machine before the caller's own work, which would count as load; None is now.
        on_step: is told what happens next, in a few words.

    Raises:
        MeasureError: the file cannot fit into memory, or cannot be measured so.
        ArtifactError: the file is not valid.
        DataError: the budget's examples are not valid, or do not fit into the context.
    """
    path, threads = Path(path), budget.threads if threads is None else threads
    if processes < LEAST_PROCESSES:
        raise MeasureError(
            f"processes must be at least {LEAST_PROCESSES}, got {processes}; fewer give no interval"
        )
    check_seconds(seconds)
    plan = check_plan(budget, threads, seconds, processes)
    loads = plan is not None or budget.accuracy is not None
    if loads:
        check_threads(threads)
    check_memory(path, budget.board, here=loads)
    before = before or this_machine()
    on_step("reading the file")
    counted = summarize_artifact(path)
    pairs = check_fit(budget, path, counted.config, counted.tokenizer)
    figures = _counted(counted)
    measured: list[ProcessResult] = []
    if plan is not None:
        measured = _measure(path, plan, processes, on_step)
        figures |= estimates(measured)
    if pairs:
        on_step(f"answering {len(pairs)} examples")
        figures["accuracy"] = _accuracy(path, threads, pairs)
    found = rows(held_limits(budget), figures, of_board=board_limits(budget))
    return Check(
        path,
        budget,
        threads,
        before,
        len(measured),
        found,
        _noise(measured, before, budget, threads),
        (*elsewhere(budget.board, before, found), *advice(found, measured, option)),
    )


def check_seconds(seconds: float) -> None:
    """Raise MeasureError where one process cannot measure times for so long."""
    if not 0 < seconds <= MOST_SECONDS:
        raise MeasureError(f"seconds must be above 0 and at most {MOST_SECONDS}, got {seconds}")


def check_json(checked: Check) -> dict[str, Any]:
    """For machines; an upper bound that is missing is None, and each verdict has its number of limits."""
    verdicts = [row.verdict for row in checked.rows]
    return {
        "file": str(checked.path),
        "budget": checked.budget.name,
        "board": None if checked.budget.board is None else checked.budget.board.description,
        "threads": checked.threads,
        "processes": checked.processes,
        "machine": asdict(checked.machine),
        "noise": list(checked.noise),
        "advice": list(checked.advice),
        "broken": bool(checked.broken),
        "verdicts": {verdict.value: verdicts.count(verdict) for verdict in Verdict},
        "limits": [_row_json(row) for row in checked.rows],
    }


def _counted(file: ArtifactSummary) -> dict[str, Estimate | None]:
    config = file.config
    return {
        "parameters": Estimate.exact(parameter_count(config)),
        "artifact_mb": Estimate.exact(file.bytes / 1e6),
        "kv_cache_mb": Estimate.exact(kv_cache_bytes(config, config.block_size, file.kv_cache) / 1e6),
    }


def _measure(path: Path, plan: MeasureSpec, processes: int, on_step: OnStep) -> list[ProcessResult]:
    """The least disturbed of at most twice as many: who lost its core to other work is measured again.

    Chosen is by the kernel's count of how long each waited, never by what it measured.
    """
    measured: list[ProcessResult] = []
    for i in range(2 * processes):
        quiet = sum(not was_disturbed(figures) for figures in measured)
        if quiet == processes:
            break
        again = " once more, the machine is busy" if i >= processes else ""
        on_step(f"measuring{again}, {quiet} of {processes} processes done")
        measured.append(measure_process(path, replace(plan, seed=i)))
    return sorted(measured, key=lambda figures: figures.waited_percent or 0.0)[:processes]


def _accuracy(path: Path, threads: int, pairs: list[Pair]) -> Estimate:
    """Of these very examples, so that nothing is uncertain about it."""
    return Estimate.exact(evaluate(load(path, threads=threads), pairs).exact_match)


def _noise(measured: list[ProcessResult], before: Machine, budget: Budget, threads: int) -> tuple[str, ...]:
    if not measured:
        return ()
    # Where nothing but the load was timed, it is what the processes waited in.
    load = load_noise(measured) if budget.load_ms is not None and measured[0].round_ms else ()
    return measured_noise(measured, before, threads) + load


def _row_json(row: Row) -> dict[str, Any]:
    estimate = row.estimate
    return {
        "name": row.name,
        "limit": row.limit,
        "limit_of": "board" if row.of_board else "budget",
        "at_least": row.at_least,
        "measured": None if estimate is None else estimate.value,
        "low": None if estimate is None else estimate.low,
        "high": None if estimate is None or estimate.high == float("inf") else estimate.high,
        "margin": row.margin,
        "verdict": row.verdict.value,
    }


def check_fit(budget: Budget, path: Path, config: ModelConfig, tokenizer: Tokenizer) -> list[Pair]:
    """The budget's examples; none where it has no accuracy.

    Args:
        budget: the limits.
        path: of the model's file, for messages.
        config: of the model.
        tokenizer: of the model.

    Raises:
        MeasureError: its prompt leaves no room for an answer.
        DataError: its examples are not valid, or one does not fit into the context.
    """
    longest = config.block_size - 1
    if budget.ttft_ms is not None and budget.ttft_ms.prompt_tokens > longest:
        raise MeasureError(
            f"ttft_ms.prompt_tokens must be from 1 to {longest} for {path}, whose context holds "
            f"{config.block_size} tokens, got {budget.ttft_ms.prompt_tokens}"
        )
    if budget.accuracy is None:
        return []
    data = Path(budget.accuracy.path)
    with suppress(OSError, ValueError):  # whoever reads it says so
        if is_stream(data):
            raise DataError(f"{data} is a pipe or a device, expected a .jsonl file; save it as a file")
    return fitting_pairs(numbered_pairs(read_text(data), str(data)), str(data), config, tokenizer)
