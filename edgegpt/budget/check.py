"""Check one file against a budget: measure in fresh processes, judge each limit by its interval."""

from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from edgegpt.accounting import kv_cache_bytes, parameter_count
from edgegpt.budget import (
    Budget,
    Estimate,
    Row,
    SecondsOption,
    Verdict,
    board_limits,
    check_memory,
    held_limits,
    rows,
)
from edgegpt.budget.estimates import LEAST_PROCESSES, estimates, was_disturbed
from edgegpt.budget.sample_size import MOST_SECONDS, SECONDS_OPTION, advice, check_spec, elsewhere
from edgegpt.config import ModelConfig
from edgegpt.errors import DataError, MeasureError
from edgegpt.examples import Pair, fitting_pairs, numbered_pairs, read_text
from edgegpt.files import is_stream
from edgegpt.measure import (
    DISTURBED_PERCENT,
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

SECONDS: Final = 2.5  # measuring time of each process; enough for rover's p99 on a quiet core


@dataclass(frozen=True)
class Check:
    """The result of checking a file against a budget.

    Attributes:
        path: the file.
        budget: the limits.
        threads: number of onnxruntime threads.
        machine: the machine before the first process started.
        processes: number of processes that measured; 0 where every limit could be counted.
        rows: one for each limit of the budget, and for the board's memory.
        noise: reasons to doubt the times (edgegpt.measure.noise); empty on a quiet machine, and where every
            limit on a time is kept.
        advice: how to get surer verdicts, one sentence each.
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
        """Rows of the broken limits."""
        return tuple(row for row in self.rows if row.verdict is Verdict.BROKEN)

    def to_json(self) -> dict[str, Any]:
        """Return the check for JSON: a missing upper bound is None, each verdict has its number of limits."""
        verdicts = [row.verdict for row in self.rows]
        return {
            "file": str(self.path),
            "budget": self.budget.name,
            "board": None if self.budget.board is None else self.budget.board.description,
            "threads": self.threads,
            "processes": self.processes,
            "machine": asdict(self.machine),
            "noise": list(self.noise),
            "advice": list(self.advice),
            "broken": bool(self.broken),
            "verdicts": {verdict.value: verdicts.count(verdict) for verdict in Verdict},
            "limits": [_row_json(row) for row in self.rows],
        }


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
    """Measure only what the budget limits; figures that can be counted need no process.

    Args:
        path: an .onnx file made by `edgegpt export`.
        budget: the limits.
        threads: number of onnxruntime threads; None is the budget's.
        processes: number of fresh processes that measure, one after another, at least LEAST_PROCESSES.
        seconds: measuring time of each process; up to ten times as long where a limit on a p99 needs more
            samples for an upper bound.
        option: the user's option for the seconds, for advice.
        before: the machine before the caller's own work, which would count as load; None reads it now.
        on_step: called with a short status message.

    Raises:
        MeasureError: the file does not fit into memory, an option is out of its range, or a process failed.
        ArtifactError: the file is not valid.
        DataError: the budget's examples are not valid, or do not fit into the context.
    """
    path, threads = Path(path), budget.threads if threads is None else threads
    if processes < LEAST_PROCESSES:
        raise MeasureError(
            f"processes must be at least {LEAST_PROCESSES}, got {processes}; fewer give no interval"
        )
    check_seconds(seconds)
    spec = check_spec(budget, threads, seconds, processes)
    loads = spec is not None or budget.accuracy is not None
    if loads:
        check_threads(threads)
    check_memory(path, budget.board, here=loads)
    before = before or this_machine()
    on_step("reading the file")
    counted = summarize_artifact(path)
    pairs = check_fit(budget, path, counted.config, counted.tokenizer)
    figures = _counted(counted)
    measured: list[ProcessResult] = []
    if spec is not None:
        measured = _measure(path, spec, processes, on_step)
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
        _noise(measured, before, threads, found),
        (*elsewhere(budget.board, before, found), *advice(found, measured, option)),
    )


def check_seconds(seconds: float) -> None:
    """Raise MeasureError where `seconds` is not within 0 and MOST_SECONDS."""
    if not 0 < seconds <= MOST_SECONDS:
        raise MeasureError(f"seconds must be above 0 and at most {MOST_SECONDS}, got {seconds}")


def check_fit(budget: Budget, path: Path, config: ModelConfig, tokenizer: Tokenizer) -> list[Pair]:
    """Check that the budget's prompt and examples fit the model, and return the examples.

    Args:
        budget: the limits.
        path: the model's file, for messages.
        config: the model's config.
        tokenizer: the model's tokenizer.

    Raises:
        MeasureError: the prompt leaves no room for an answer.
        DataError: the examples are not valid, or one does not fit into the context.
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
    with suppress(OSError, ValueError):  # reported when it is read
        if is_stream(data):
            raise DataError(f"{data} is a pipe or a device, expected a .jsonl file; save it as a file")
    return fitting_pairs(numbered_pairs(read_text(data), str(data)), str(data), config, tokenizer)


def _counted(file: ArtifactSummary) -> dict[str, Estimate | None]:
    config = file.config
    return {
        "parameters": Estimate.exact(parameter_count(config)),
        "artifact_mb": Estimate.exact(file.bytes / 1e6),
        "kv_cache_mb": Estimate.exact(kv_cache_bytes(config, config.block_size, file.kv_cache) / 1e6),
    }


def _measure(path: Path, spec: MeasureSpec, processes: int, on_step: OnStep) -> list[ProcessResult]:
    """Run up to twice as many processes and return the least disturbed ones.

    They are ranked by how long each waited for its core, never by what it measured.
    """
    measured: list[ProcessResult] = []
    for i in range(2 * processes):
        quiet = sum(not was_disturbed(figures) for figures in measured)
        if quiet == processes:
            break
        again = " once more, the machine is busy" if i >= processes else ""
        on_step(f"measuring{again}, {quiet} of {processes} processes done")
        measured.append(measure_process(path, replace(spec, seed=i)))
    return sorted(measured, key=lambda figures: figures.waited_percent or 0.0)[:processes]


def _accuracy(path: Path, threads: int, pairs: list[Pair]) -> Estimate:
    """Return exact match on this dataset, without an interval, since the dataset is fixed."""
    return Estimate.exact(evaluate(load(path, threads=threads), pairs).exact_match)


def _noise(
    measured: list[ProcessResult], before: Machine, threads: int, found: tuple[Row, ...]
) -> tuple[str, ...]:
    """Return the reasons to doubt the times where a limit on one is not kept; see edgegpt.measure.noise."""
    doubtful = [row for row in found if row.timed and row.verdict in (Verdict.BROKEN, Verdict.WITHIN_NOISE)]
    if not measured or not doubtful:
        return ()
    noise = measured_noise(measured, before, threads, least_percent=DISTURBED_PERCENT)
    # Where only the load was timed, the waiting is that of the load.
    if measured[0].round_ms and any(row.name == "load_ms" for row in doubtful):
        noise += load_noise(measured, least_percent=DISTURBED_PERCENT)
    return noise


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
