"""Measure and count everything that the page says of a file."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from edgegpt.artifact import open_artifact
from edgegpt.budget import Budget
from edgegpt.check import Check, check
from edgegpt.measure.bench import Bench, bench
from edgegpt.measure.plan import Plan
from edgegpt.measure.process import check_threads
from edgegpt.memory_need import check_memory
from edgegpt.onnx_metadata import file_sha256
from edgegpt.report.commands import CHECK_SHARE, Command, Options, commands
from edgegpt.report.facts import Facts, read_facts
from edgegpt.report.proof import Evidence, Number, read_evidence, repeat
from edgegpt.report.roofline import Roofline, roofline
from edgegpt.report.weights import Weights, read_weights
from edgegpt.row_text import sentence

_LEAST_SECONDS: Final = 0.01  # of `check`

OnStep = Callable[[str], None]


@dataclass(frozen=True)
class Report:
    """All that is known of one file at one moment.

    Attributes:
        made: when, in UTC.
        options: with which it was asked for.
        facts, weights, evidence: what the file is and says.
        repeated: what was checked of it here.
        bench: what was measured of it here.
        roofline: what follows from that.
        checked: the budget beside it; None without one.
        budget_sha256: of the budget's file.
        commands: how to do it again.
    """

    made: datetime
    options: Options
    facts: Facts
    weights: Weights
    evidence: Evidence
    repeated: tuple[Number, ...]
    bench: Bench
    roofline: Roofline
    checked: Check | None
    budget_sha256: str | None
    commands: tuple[Command, ...]

    @property
    def unproved(self) -> tuple[str, ...]:
        """A sentence for everything that the file has not proved, then or now."""
        now = tuple(
            f"{number.name} is {number.value:.3g} here, the limit is {number.limit:g}"
            for number in self.repeated
            if not number.passed
        )
        return self.evidence.failures + now

    @property
    def broken(self) -> tuple[str, ...]:
        """A sentence for every limit of the budget that is broken for sure."""
        return () if self.checked is None else tuple(map(sentence, self.checked.broken))

    @property
    def passed(self) -> bool:
        """Nothing fell short."""
        return not self.unproved and not self.broken

    @property
    def noise(self) -> tuple[str, ...]:
        """Why the times are not to be trusted, said once; empty on a quiet machine."""
        return self.bench.noise or (() if self.checked is None else self.checked.noise)


def gather(
    path: str | Path,
    out: Path,
    *,
    budget: Path | None = None,
    threads: int | None = None,
    seconds: float = 10.0,
    on_step: OnStep = lambda _: None,
) -> Report:
    """Everything about a file. Times and memory are measured in processes of their own.

    Args:
        path: an .onnx file made by `edgegpt export`.
        out: where the page will lie, for the command that makes it again.
        budget: a budget file to hold it to as well.
        threads: of onnxruntime; None is the budget's, or 1.
        seconds: of measuring times, in three processes together; a budget takes one and a half times
            as much on top.
        on_step: is told what happens next, in a few words.

    Raises:
        ArtifactError: the file is not valid, or holds no evidence that can be read.
        ConfigError, DataError: the budget or its examples are not valid.
        MeasureError: the file cannot be measured so, or does not fit into memory.
    """
    path = Path(path)
    limits = None if budget is None else Budget.from_yaml(budget)
    if threads is None:
        threads = 1 if limits is None else limits.threads
    check_threads(threads)
    plan = Plan(threads=threads, seconds=seconds, bandwidth=True)
    check_memory(path, None if limits is None else limits.board)
    on_step("reading the file")
    artifact = open_artifact(path, threads=threads)
    facts, weights, evidence = read_facts(artifact), read_weights(artifact), read_evidence(artifact)
    repeated = repeat(artifact, threads, on_step)
    del artifact  # its memory, before others measure theirs
    measured = bench(path, plan, on_progress=lambda share: on_step(f"measuring, {share:.0%}"))
    options = Options(out, budget, threads, seconds)
    return Report(
        made=datetime.now(timezone.utc),
        options=options,
        facts=facts,
        weights=weights,
        evidence=evidence,
        repeated=repeated,
        bench=measured,
        roofline=roofline(facts.config, measured),
        checked=None if limits is None else _held(path, limits, threads, seconds, on_step),
        budget_sha256=None if budget is None else file_sha256(budget),
        commands=commands(facts, options, measured.machine),
    )


def _held(path: Path, limits: Budget, threads: int, seconds: float, on_step: OnStep) -> Check:
    return check(
        path,
        limits,
        threads=threads,
        seconds=max(_LEAST_SECONDS, CHECK_SHARE * seconds),
        on_step=lambda step: on_step(f"budget: {step}"),
    )
