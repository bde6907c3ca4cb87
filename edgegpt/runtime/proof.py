"""The evidence that is in a file, number by number, and what can be repeated here without PyTorch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from edgegpt.errors import ArtifactError
from edgegpt.runtime.artifact import Artifact, open_artifact
from edgegpt.runtime.engine import Engine
from edgegpt.runtime.self_check import (
    causality,
    differing_tokens,
    evidence_limit,
    parity_failures,
    row_failures,
    stepwise,
)

# What each check of the exporter measures; its own words are not in the file.
_WHAT: Final = {
    "weight bytes": "bytes of the weights beside the analytic count",
    "precision": "matrices that are not of the bits that the file's precision and recipe say",
    "operators": "operators that the target does not allow",
    "causality": "movement of an earlier logit when later tokens are changed",
    "chunked = whole": "a prompt read in pieces beside the same prompt read whole",
    "stepwise = whole": "a prompt read token by token beside the same prompt read whole",
    "batch = singles": "prompts read as a batch beside the same prompts read one by one",
    "task accuracy": "points of exact match lost against float32 on the exporter's examples",
}


@dataclass(frozen=True)
class Length:
    """PyTorch against the file on one prompt of so many tokens; see the exporter's evidence."""

    tokens: int
    max_abs: float
    kl: float
    top1: float
    passed: bool


@dataclass(frozen=True)
class Number:
    """One number that must not be above its limit."""

    name: str
    value: float
    limit: float
    what: str

    @property
    def passed(self) -> bool:
        """NaN is beyond every limit."""
        return self.value <= self.limit


@dataclass(frozen=True)
class Evidence:
    """What the export measured and stamped.

    Attributes:
        max_abs, kl, top1: limits of each prompt; max_abs is None where only the distribution is judged.
        lengths: one for each prompt.
        checks: the other numbers.
        failures: a sentence for everything beyond its limit.
    """

    max_abs: float | None
    kl: float
    top1: float
    lengths: tuple[Length, ...]
    checks: tuple[Number, ...]
    failures: tuple[str, ...]


def read_evidence(artifact: Artifact) -> Evidence:
    """The evidence of an open file.

    Raises:
        ArtifactError: the file holds none, or it cannot be read.
    """
    failures, stamped = parity_failures(artifact), artifact.evidence
    try:
        limits = stamped["limits"]
        return Evidence(
            max_abs=None if limits["max_abs"] is None else float(limits["max_abs"]),
            kl=float(limits["kl"]),
            top1=float(limits["top1"]),
            lengths=tuple(_length(row, limits) for row in stamped["rows"]),
            checks=tuple(_check(name, check) for name, check in stamped["checks"].items()),
            failures=tuple(failures),
        )
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as e:
        raise ArtifactError(f"the evidence in {artifact.path} is damaged; export it again") from e


def repeat(artifact: Artifact, threads: int, on_step: Callable[[str], None]) -> tuple[Number, ...]:
    """Causality, stepwise = whole and determinism of the file, on this machine, now.

    Args:
        artifact: the open file, whose evidence `read_evidence` has found in order.
        threads: of the sessions that are made.
        on_step: is told what happens next, in a few words.

    Raises:
        ArtifactError: the evidence lacks a limit.
    """
    by_kl = artifact.evidence["limits"]["max_abs"] is None
    most_moved = evidence_limit(artifact, "causality")
    most_different = evidence_limit(artifact, "consistency")
    engine = Engine.from_artifact(artifact)
    on_step("changing later tokens")
    moved = causality(engine)
    on_step("token by token")
    difference = stepwise(engine, by_kl=by_kl)
    on_step("the same requests twice")
    different = differing_tokens(lambda: Engine.from_artifact(open_artifact(artifact.path, threads=threads)))
    unit = "nats of KL divergence" if by_kl else "difference of a logit"
    return (
        Number(
            "causality",
            moved,
            most_moved,
            "nats by which the loss of an earlier token moves when later tokens are changed",
        ),
        Number("stepwise = whole", difference, most_different, f"{_WHAT['stepwise = whole']}, {unit}"),
        Number(
            "determinism",
            different,
            0,
            "tokens that differ between two sessions given the same requests, greedy and with a seed",
        ),
    )


def _length(row: dict[str, Any], limits: dict[str, Any]) -> Length:
    return Length(
        tokens=int(row["length"]),
        max_abs=float(row["max_abs"]),
        kl=float(row["kl"]),
        top1=float(row["top1"]),
        passed=not any(row_failures(row, limits)),
    )


def _check(name: str, check: dict[str, Any]) -> Number:
    return Number(name, float(check["value"]), float(check["limit"]), _WHAT.get(name, ""))
