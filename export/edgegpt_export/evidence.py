"""What verification measured, as values."""

import json
from dataclasses import asdict, dataclass, replace
from math import ceil, isnan

from edgegpt_export.limits import Limits


@dataclass(frozen=True)
class Row:
    """PyTorch against the file on one prompt.

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
        """One sentence for each number beyond its limit; NaN is beyond every limit."""
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
class Check:
    """One number that has to be small.

    Attributes:
        name: `causality`, `chunked = whole`, `stepwise = whole`, `batch = singles`, `weight bytes`,
            `precision`, `operators` or `task accuracy`.
        value: what was measured.
        limit: the largest value that passes.
        detail: what the value is, in words.
    """

    name: str
    value: float
    limit: float
    detail: str

    def failures(self) -> list[str]:
        """A sentence if the value is beyond its limit or NaN."""
        if self.value <= self.limit:
            return []
        return [f"{self.name}: {self.detail}: {self.value:.3g}, the limit is {self.limit:g}"]


@dataclass(frozen=True)
class Evidence:
    """The whole of a verification: one row a prompt length, and the checks beside them."""

    target: str
    precision: str
    limits: Limits
    rows: tuple[Row, ...]
    checks: tuple[Check, ...]

    @property
    def failures(self) -> list[str]:
        """One sentence with its numbers for everything beyond its limit; empty when all is well."""
        of_rows = [sentence for row in self.rows for sentence in row.failures(self.limits)]
        return of_rows + [sentence for check in self.checks for sentence in check.failures()]

    def plus(self, check: Check) -> "Evidence":
        """The same with one check more."""
        return replace(self, checks=(*self.checks, check))

    def to_json(self) -> str:
        """Compact JSON for the file's metadata; measured numbers keep three digits."""
        rows = [{key: three_digits(value) for key, value in asdict(row).items()} for row in self.rows]
        checks = {
            check.name: {"value": three_digits(check.value), "limit": check.limit} for check in self.checks
        }
        document = {"limits": asdict(self.limits), "rows": rows, "checks": checks}
        return json.dumps(document, separators=(",", ":"))


def three_digits(value: float) -> float:
    """A measured number as it is written into a file."""
    return value if isinstance(value, int) else float(f"{value:.3g}")
