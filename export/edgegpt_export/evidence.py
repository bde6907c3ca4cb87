"""What verification measured, as values.

How far a file may be from PyTorch, for each precision: the one table.
"""

import json
from dataclasses import asdict, dataclass, replace
from math import ceil, isnan
from typing import Final


@dataclass(frozen=True)
class Limits:
    """Largest values that pass, and the smallest top-1 agreement.

    Attributes:
        max_abs: difference of a logit from PyTorch's; None where only the distribution is judged.
        kl: mean over positions of KL(PyTorch || file), in nats.
        top1: fraction of positions with the same most likely token; what may differ is rounded up to
            whole positions.
        tie: tokens whose logits PyTorch has within this of each other count as the same; in few bits a
            choice of nearly the same probability is no error.
        consistency: between two ways through the same file: whole, in chunks, token by token, in a
            batch. Of a logit where max_abs is judged; there the rounding of sums in another order
            makes the difference. Else in KL at the worst position: in few bits that rounding moves an
            activation over the edge between two integers.
        causality: difference of a logit after a change to later tokens. Nothing is summed in another
            order, so 0 is usual.
        task_points: percentage points of exact match that a file may lose on a user's examples.
    """

    max_abs: float | None
    kl: float
    top1: float
    tie: float
    consistency: float
    causality: float
    task_points: float


_FEW_BITS: Final = Limits(
    max_abs=None, kl=0.2, top1=0.8, tie=0.25, consistency=0.01, causality=1e-6, task_points=2.0
)

LIMITS: Final = {
    "fp32": Limits(
        max_abs=1e-4, kl=1e-6, top1=1.0, tie=1e-4, consistency=1e-4, causality=1e-6, task_points=0.1
    ),
    "int8": replace(_FEW_BITS, kl=0.01, top1=0.95, tie=0.05, task_points=0.5),
    "int4": _FEW_BITS,
    "auto": _FEW_BITS,
}


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
