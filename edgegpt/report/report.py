"""Measure and count all figures of the report about a file."""

import hashlib
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from edgegpt.budget import Budget, Check, check_file, check_fit, check_memory, sentence
from edgegpt.config import parse_model, read_bytes
from edgegpt.errors import ArtifactError
from edgegpt.measure import Bench, Machine, MeasureSpec, OnStep, check_threads, run_bench, this_machine
from edgegpt.prediction import Target
from edgegpt.report.commands import CHECK_OPTION, Command, Options, commands
from edgegpt.report.facts import Facts, Weights, read_facts, read_weights
from edgegpt.report.roofline import ProfileComparison, Roofline, compare, roofline
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
    """Everything known about one file at one moment.

    Attributes:
        made: time of the report, in UTC.
        options: options of the command.
        facts, weights, evidence: facts of the file, and its stored verification result.
        repeated: checks that were repeated on this machine.
        bench: measurements on this machine.
        roofline: work and traffic behind those measurements.
        checked: result of the budget check; None without a budget.
        budget_sha256: checksum of the budget's file.
        comparison: predictions of the board profile and measurements; None without a profile.
        profile_sha256: checksum of the profile's file.
        commands: commands that reproduce the report.
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
    comparison: ProfileComparison | None
    profile_sha256: str | None
    commands: tuple[Command, ...]

    @property
    def unproved(self) -> tuple[str, ...]:
        """One sentence for each check that failed, at the export or on this machine."""
        now = [failure for check in self.repeated for failure in check.failures()]
        return (*self.evidence.failures, *now)

    @property
    def broken(self) -> tuple[str, ...]:
        """One sentence for each broken limit of the budget."""
        return () if self.checked is None else tuple(map(sentence, self.checked.broken))

    @property
    def passed(self) -> bool:
        """True if no check failed and no limit is broken."""
        return not self.unproved and not self.broken

    @property
    def noise(self) -> tuple[str, ...]:
        """Reasons to doubt the times; empty on a quiet machine."""
        return self.bench.noise or (() if self.checked is None else self.checked.noise)

    def to_json(self) -> dict[str, Any]:
        """Return everything on the page for JSON; units are in the keys."""
        evidence, comparison = self.evidence, self.comparison
        return {
            "made": self.made.isoformat(timespec="seconds"),
            "page": str(self.options.out),
            "passed": self.passed,
            "unproved": list(self.unproved),
            "broken": list(self.broken),
            "noise": list(self.noise),
            "file": {**asdict(self.facts), "path": str(self.facts.path)},
            "weights": asdict(self.weights),
            "evidence": {
                "max_abs": evidence.limits.max_abs,
                "kl": evidence.limits.kl,
                "top1": evidence.limits.top1,
                "lengths": [
                    {
                        "tokens": row.length,
                        "max_abs": row.max_abs,
                        "kl": row.kl,
                        "top1": row.top1,
                        "passed": not row.failures(evidence.limits),
                    }
                    for row in evidence.rows
                ],
                "checks": [_with(check, "passed") for check in evidence.checks],
                "failures": evidence.failures,
            },
            "repeated": [_with(check, "passed") for check in self.repeated],
            "bench": self.bench.to_json(),
            "roofline": {
                kind: [_with(point, "intensity", "flops_per_second") for point in points]
                for kind, points in vars(self.roofline).items()
            },
            "prediction": None
            if comparison is None
            else {**asdict(comparison), "figures": [_with(figure, "off") for figure in comparison.figures]},
            "target_sha256": self.profile_sha256,
            "budget": None if self.checked is None else self.checked.to_json(),
            "budget_sha256": self.budget_sha256,
            "commands": [asdict(command) for command in self.commands],
        }


def make_report(
    path: str | Path,
    out: Path,
    *,
    budget: Path | None = None,
    profile: Path | None = None,
    threads: int | None = None,
    seconds: float = 10.0,
    on_step: OnStep = lambda _: None,
) -> Report:
    """Measure and check a file; times and memory are measured in fresh processes.

    Args:
        path: an .onnx file made by `edgegpt export`.
        out: path of the page, for the command that reproduces it.
        budget: a budget file to check the file against.
        profile: a board profile, for predictions and for peak arithmetic.
        threads: number of onnxruntime threads; None takes the budget's, or 1.
        seconds: measuring time of three processes together; a budget takes one and a half times as much
            in addition.
        on_step: called with a short status message.

    Raises:
        ArtifactError: the file is not valid, holds no readable verification result, or was changed while
            it was measured.
        ConfigError, DataError: the budget, its examples or the profile are not valid.
        MeasureError: an option is out of its range, a process failed, or the file does not fit into memory.
    """
    identity, path = file_identity(path), Path(path)
    limits, budget_sha256 = (None, None) if budget is None else _read_budget(budget)
    board, profile_sha256 = (None, None) if profile is None else _read_profile(profile)
    if threads is None:
        threads = 1 if limits is None else limits.threads
    check_threads(threads)
    before = this_machine()  # the report's own work would count as load
    options = Options(out, budget, profile, threads, seconds)
    check_memory(path, None if limits is None else limits.board)
    on_step("reading the file")
    artifact = open_artifact(path, threads=threads)
    facts, weights, evidence = read_facts(artifact), read_weights(artifact), read_evidence(artifact)
    if limits is not None:
        check_fit(limits, path, artifact.config, artifact.tokenizer)
    repeated = repeat_checks(artifact, threads, on_step)
    del artifact  # free its memory before other processes measure theirs
    measured = run_bench(
        path,
        MeasureSpec(threads=threads, seconds=seconds, bandwidth=True),
        before=before,
        on_progress=lambda share: on_step(f"measuring, {share:.0%}"),
    )
    checked = None if limits is None else _check(path, limits, options, before, on_step)
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
        comparison=None if board is None else compare(board, facts, weights, measured),
        profile_sha256=profile_sha256,
        commands=commands(facts, options, measured.machine),
    )


def _check(path: Path, budget: Budget, options: Options, before: Machine, on_step: OnStep) -> Check:
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
    """Raise ArtifactError if the file changed, which a dozen processes have opened by then."""
    if (now := file_identity(path)) != identity:
        raise ArtifactError(
            f"{path} was changed while it was measured: its checksum began {identity[:12]} and begins "
            f"{now[:12]} now; measure it again"
        )


def _read_budget(path: Path) -> tuple[Budget, str]:
    """Read a budget and return it with the sha256 of the bytes that were read; raise ConfigError."""
    content = read_bytes(path)
    return Budget.parse(content, path), hashlib.sha256(content).hexdigest()


def _read_profile(path: Path) -> tuple[Target, str]:
    """Read a board profile and return it with the sha256 of the bytes that were read; raise ConfigError."""
    content = read_bytes(path)
    return parse_model(content, path, Target), hashlib.sha256(content).hexdigest()


def _with(value: Any, *properties: str) -> dict[str, Any]:
    """Return a dataclass as a dict, with some of its properties."""
    return {**asdict(value), **{name: getattr(value, name) for name in properties}}
