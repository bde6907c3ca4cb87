"""How far a file may be from PyTorch, for each precision: the one table."""

from dataclasses import dataclass, replace
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
