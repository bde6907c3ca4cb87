"""Measure and count everything that the page says of a file.

A report for machines.

What is given beside the model, a budget and a profile: read once, and hashed as it was read.
"""

import hashlib
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from edgegpt.budget import Budget, Check, check_file, check_fit, check_memory, sentence
from edgegpt.config import parse_model, read_bytes
from edgegpt.errors import ArtifactError
from edgegpt.measure import (
    Bench,
    Machine,
    MeasureSpec,
    OnStep,
    check_threads,
    run_bench,
    this_machine,
)
from edgegpt.prediction import Target
from edgegpt.report.commands import CHECK_OPTION, Command, Options, commands
from edgegpt.report.facts import Facts, Weights, read_facts, read_weights
from edgegpt.report.roofline import Point, Predicted, Roofline, predict, roofline
from edgegpt.runtime import (
    CheckResult,
    Evidence,
    file_identity,
    open_artifact,
    read_evidence,
    repeat_checks,
)


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
        predicted: what a profile says of the file; None without one.
        target_sha256: of the profile's file.
        commands: how to do it again.
    """

    made: datetime
    options: Options
    facts: Facts
    weights: Weights
    evidence: Evidence
    repeated: tuple[CheckResult, ...]
    bench: Bench
    roofline: Roofline
    checked: Check | None
    budget_sha256: str | None
    predicted: Predicted | None
    target_sha256: str | None
    commands: tuple[Command, ...]

    @property
    def unproved(self) -> tuple[str, ...]:
        """A sentence for everything that the file has not proved, then or now."""
        now = tuple(
            f"{number.name} is {number.value:.3g} here, the limit is {number.limit:g}"
            for number in self.repeated
            if not number.passed
        )
        return (*self.evidence.failures, *now)

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
    target: Path | None = None,
    threads: int | None = None,
    seconds: float = 10.0,
    on_step: OnStep = lambda _: None,
) -> Report:
    """Everything about a file. Times and memory are measured in processes of their own.

    Args:
        path: an .onnx file made by `edgegpt export`.
        out: where the page will lie, for the command that makes it again.
        budget: a budget file to hold it to as well.
        target: a profile to predict from, and to take the roof of arithmetic from.
        threads: of onnxruntime; None is the budget's, or 1.
        seconds: of measuring times, in three processes together; a budget takes one and a half times
            as much on top.
        on_step: is told what happens next, in a few words.

    Raises:
        ArtifactError: the file is not valid, holds no evidence that can be read, or was changed meanwhile.
        ConfigError, DataError: the budget, its examples or the profile are not valid.
        MeasureError: the file cannot be measured so, or does not fit into memory.
    """
    identity, path = file_identity(path), Path(path)
    limits, budget_sha256 = (None, None) if budget is None else read_budget(budget)
    profile, target_sha256 = (None, None) if target is None else read_target(target)
    if threads is None:
        threads = 1 if limits is None else limits.threads
    check_threads(threads)
    before = this_machine()  # what is done here would count as load
    options = Options(out, budget, target, threads, seconds)
    plan = MeasureSpec(threads=threads, seconds=seconds, bandwidth=True)
    check_memory(path, None if limits is None else limits.board)
    on_step("reading the file")
    artifact = open_artifact(path, threads=threads)
    facts, weights, evidence = read_facts(artifact), read_weights(artifact), read_evidence(artifact)
    if limits is not None:
        check_fit(limits, path, artifact.config, artifact.tokenizer)
    repeated = repeat_checks(artifact, threads, on_step)
    del artifact  # its memory, before others measure theirs
    measured = run_bench(
        path, plan, before=before, on_progress=lambda share: on_step(f"measuring, {share:.0%}")
    )
    checked = None if limits is None else _held(path, limits, options, before, on_step)
    _check_unchanged(path, identity)
    return Report(
        made=datetime.now(timezone.utc),
        options=options,
        facts=facts,
        weights=weights,
        evidence=evidence,
        repeated=repeated,
        bench=measured,
        roofline=roofline(facts.config, measured),
        checked=checked,
        budget_sha256=budget_sha256,
        predicted=None if profile is None else predict(profile, facts, weights, measured),
        target_sha256=target_sha256,
        commands=commands(facts, options, measured.machine),
    )


def _held(path: Path, budget: Budget, options: Options, before: Machine, on_step: OnStep) -> Check:
    return check_file(
        path,
        budget,
        threads=options.threads,
        seconds=options.check_seconds,
        option=CHECK_OPTION,
        before=before,
        on_step=lambda step: on_step(f"budget: {step}"),
    )


def _check_unchanged(path: Path, identity: str) -> None:
    """One page is about one file, which a dozen processes have opened; each compares the data beside it."""
    if (now := file_identity(path)) != identity:
        raise ArtifactError(
            f"{path} was changed while it was measured: its checksum began {identity[:12]} and begins "
            f"{now[:12]} now; measure it again"
        )


def report_json(report: Report) -> dict[str, Any]:
    """Everything that the page says; bytes, milliseconds and FLOPs, as the names say."""
    facts, weights, evidence = report.facts, report.weights, report.evidence
    return {
        "made": report.made.isoformat(timespec="seconds"),
        "page": str(report.options.out),
        "passed": report.passed,
        "unproved": list(report.unproved),
        "broken": list(report.broken),
        "noise": list(report.noise),
        "file": {
            **asdict(facts),
            "path": str(facts.path),
        },
        "weights": {**asdict(weights), "bits": dict(weights.bits)},
        "evidence": _evidence(evidence),
        "repeated": [_number(number) for number in report.repeated],
        "bench": report.bench.to_json(),
        "roofline": {
            "tokens": [_point(point) for point in report.roofline.tokens],
            "prompts": [_point(point) for point in report.roofline.prompts],
        },
        "prediction": None if report.predicted is None else _predicted(report.predicted),
        "target_sha256": report.target_sha256,
        "budget": None if report.checked is None else report.checked.to_json(),
        "budget_sha256": report.budget_sha256,
        "commands": [asdict(command) for command in report.commands],
    }


def _evidence(evidence: Evidence) -> dict[str, Any]:
    limits = evidence.limits
    return {
        "max_abs": limits.max_abs,
        "kl": limits.kl,
        "top1": limits.top1,
        "lengths": [
            {
                "tokens": row.length,
                "max_abs": row.max_abs,
                "kl": row.kl,
                "top1": row.top1,
                "passed": not row.failures(limits),
            }
            for row in evidence.rows
        ],
        "checks": [_number(check) for check in evidence.checks],
        "failures": evidence.failures,
    }


def _number(number: CheckResult) -> dict[str, Any]:
    return {**asdict(number), "passed": number.passed}


def _predicted(predicted: Predicted) -> dict[str, Any]:
    figures = [{**asdict(figure), "off": figure.off} for figure in predicted.figures]
    return {**asdict(predicted), "figures": figures}


def _point(point: Point) -> dict[str, Any]:
    return {**asdict(point), "intensity": point.intensity, "flops_per_second": point.flops_per_second}


def read_budget(path: Path) -> tuple[Budget, str]:
    """A budget file and the sha256 of the very bytes that say so; raises ConfigError."""
    content = read_bytes(path)
    return Budget.parse(content, path), hashlib.sha256(content).hexdigest()


def read_target(path: Path) -> tuple[Target, str]:
    """A target file and the sha256 of the very bytes that say so; raises ConfigError."""
    content = read_bytes(path)
    return parse_model(content, path, Target), hashlib.sha256(content).hexdigest()
