"""The verification result of a file: measured numbers, limits, and failures.

`edgegpt_export` measures it and writes it into the file's metadata; the runtime, the report and the
command line read it from there. Limits and rules for failures are defined here and nowhere else.
"""

import json
from dataclasses import asdict, dataclass, fields, replace
from math import ceil, isfinite, isnan
from typing import TYPE_CHECKING, Any, Final

from edgegpt.errors import ArtifactError

if TYPE_CHECKING:
    from edgegpt.runtime.artifact import Artifact


@dataclass(frozen=True)
class Limits:
    """Largest values that pass, and the smallest top-1 agreement.

    A limit that is added later needs a default, which files without it then get.

    Attributes:
        max_abs: difference of a logit from PyTorch's; None where only the distribution is compared.
        kl: mean over positions of KL(PyTorch || file), in nats.
        top1: fraction of positions with the same most likely token; the number of positions that may
            differ is rounded up.
        tie: tokens whose logits differ by at most this in PyTorch count as the same; in a quantised
            model a choice of nearly the same probability is not an error.
        consistency: between two ways through the same file: whole, in chunks, token by token, in a
            batch. A difference of logits where max_abs is compared, since only the order of sums
            differs; else KL at the worst position, since in a quantised model that order can move
            an activation from one integer to the next.
        causality: difference of a logit after a change to later tokens. The order of sums does not
            change, so 0 is usual.
        task_points: percentage points of exact match that a file may lose on a user's examples.
    """

    max_abs: float | None
    kl: float
    top1: float
    tie: float
    consistency: float
    causality: float
    task_points: float

    @property
    def by_kl(self) -> bool:
        """True where distributions are compared and not single logits, as in quantised models."""
        return self.max_abs is None


_QUANTISED: Final = Limits(
    max_abs=None, kl=0.2, top1=0.8, tie=0.25, consistency=0.01, causality=1e-6, task_points=2.0
)

LIMITS: Final = {
    "fp32": Limits(
        max_abs=1e-4, kl=1e-6, top1=1.0, tie=1e-4, consistency=1e-4, causality=1e-6, task_points=0.1
    ),
    "int8": replace(_QUANTISED, kl=0.01, top1=0.95, tie=0.05, task_points=0.5),
    "int4": _QUANTISED,
    "auto": _QUANTISED,
}


@dataclass(frozen=True)
class ParityRow:
    """PyTorch compared with the file on one prompt.

    Attributes:
        length: tokens of the prompt.
        max_abs: largest difference of a logit, at any position.
        kl: mean over positions of KL(PyTorch || file), in nats.
        top1: fraction of positions with the same most likely token, ties aside.
    """

    length: int
    max_abs: float
    kl: float
    top1: float

    @property
    def misses(self) -> int:
        """Positions with another most likely token; all of them where `top1` is NaN."""
        return self.length - (0 if isnan(self.top1) else round(self.top1 * self.length))

    def failures(self, limits: Limits) -> list[str]:
        """Return one sentence for each number outside its limit; NaN is outside every limit."""
        sentences = []
        if limits.max_abs is not None and not self.max_abs <= limits.max_abs:
            sentences.append(
                f"length {self.length}: the largest difference from PyTorch is {self.max_abs:.3g}, "
                f"the limit is {limits.max_abs:g}"
            )
        if not self.kl <= limits.kl:
            sentences.append(
                f"length {self.length}: the KL divergence from PyTorch is {self.kl:.3g}, "
                f"the limit is {limits.kl:g}"
            )
        if self.misses > ceil(round(self.length * (1 - limits.top1), 6)):
            sentences.append(
                f"length {self.length}: the most likely token agrees at {self.top1:.2%} of positions, "
                f"the limit is {limits.top1:.0%}"
            )
        return sentences


@dataclass(frozen=True)
class CheckResult:
    """One number and its upper limit.

    Attributes:
        name: such as `causality` or `stepwise = whole`.
        value: the measured number.
        limit: the largest value that passes.
        what: description of the value; empty for a check that this version does not know.
    """

    name: str
    value: float
    limit: float
    what: str

    @property
    def passed(self) -> bool:
        """True where the value is within its limit; NaN never is."""
        return self.value <= self.limit

    def failures(self) -> list[str]:
        """Return a sentence with the value and the limit unless the check passed."""
        if self.passed:
            return []
        subject = f"{self.name}: {self.what}" if self.what else self.name
        return [f"{subject}: {self.value:.3g}, the limit is {self.limit:g}"]


@dataclass(frozen=True)
class Evidence:
    """A whole verification result: parity at each prompt length, and the other checks."""

    target: str
    precision: str
    limits: Limits
    rows: tuple[ParityRow, ...]
    checks: tuple[CheckResult, ...]

    @property
    def failures(self) -> list[str]:
        """One sentence with its numbers for everything outside its limit; empty for a good file."""
        of_rows = [sentence for row in self.rows for sentence in row.failures(self.limits)]
        return of_rows + [sentence for check in self.checks for sentence in check.failures()]

    def plus(self, check: CheckResult) -> "Evidence":
        """Return the same result with one more check."""
        return replace(self, checks=(*self.checks, check))

    def summary(self) -> str:
        """Return the numbers of a result without failures in one sentence."""
        if self.limits.by_kl:
            difference = f"KL divergence from PyTorch {max(row.kl for row in self.rows):.1e} nats"
        else:
            difference = f"max abs difference from PyTorch {max(row.max_abs for row in self.rows):.1e}"
        tokens = sum(row.length for row in self.rows)
        agreed = tokens - sum(row.misses for row in self.rows)
        lengths = ", ".join(str(row.length) for row in self.rows)
        checks = ", ".join(f"{check.name} {check.value:.2g}" for check in self.checks)
        return f"{difference}, top-1 agreement {100 * agreed / tokens:.4g}% at lengths {lengths}; {checks}"

    def to_json(self) -> str:
        """Return compact JSON for the file's metadata; measured numbers keep three digits."""
        rows = [{key: three_digits(value) for key, value in asdict(row).items()} for row in self.rows]
        checks = {
            check.name: {"value": three_digits(check.value), "limit": check.limit} for check in self.checks
        }
        document = {"limits": asdict(self.limits), "rows": rows, "checks": checks}
        return json.dumps(document, separators=(",", ":"))


def read_evidence(artifact: "Artifact") -> Evidence:
    """Return the verification result in an open file.

    Raises:
        ArtifactError: the file holds none, or it cannot be read.
    """
    stored = artifact.evidence
    if not stored.get("rows"):
        raise ArtifactError(
            f"{artifact.path} holds no verification result; make it with `edgegpt export`, which verifies it"
        )
    try:
        return Evidence(
            artifact.target,
            artifact.precision,
            _limits(stored["limits"]),
            tuple(_row(row) for row in stored["rows"]),
            tuple(_check(name, check) for name, check in stored["checks"].items()),
        )
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as e:
        raise ArtifactError(f"the verification result in {artifact.path} is damaged; export it again") from e


def three_digits(value: float) -> float:
    """Return a measured number as it is written into a file: an int as it is, a float in three digits."""
    return value if isinstance(value, int) else float(f"{value:.3g}")


# Description of the exporter's checks; the file holds only names and numbers.
_WHAT: Final = {
    "weight bytes": "difference in bytes between the weights in the file and those counted from the config",
    "precision": "number of matrices whose bits are not those of the file's precision and recipe",
    "operators": "number of operators that the target does not allow",
    "causality": "change of an earlier logit when later tokens are changed",
    "chunked = whole": "a prompt read in chunks against the same prompt read whole",
    "stepwise = whole": "a prompt read token by token against the same prompt read whole",
    "batch = singles": "prompts read as a batch against the same prompts read one by one",
    "task accuracy": "points of exact match lost against float32 on the exporter's examples",
}


def _limits(stored: dict[str, Any]) -> Limits:
    """Return the limits; raise TypeError if one without a default is missing. Other keys are ignored."""
    known = {field.name: stored[field.name] for field in fields(Limits) if field.name in stored}
    numbers = {name: float(value) for name, value in known.items() if value is not None or name != "max_abs"}
    if not all(map(isfinite, numbers.values())):
        raise ValueError(f"limits must be finite, got {numbers}")
    return Limits(**{**known, **numbers})


def _row(stored: dict[str, Any]) -> ParityRow:
    length, top1 = int(stored["length"]), float(stored["top1"])
    if not isnan(top1):
        # Back to whole positions: the fewest misses that a fraction of three digits can mean.
        misses = ceil(length * (1 - top1) - length * 0.5e-3)
        top1 = (length - misses) / length
    return ParityRow(length, float(stored["max_abs"]), float(stored["kl"]), top1)


def _check(name: str, stored: dict[str, Any]) -> CheckResult:
    return CheckResult(name, float(stored["value"]), float(stored["limit"]), _WHAT.get(name, ""))
