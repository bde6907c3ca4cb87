"""How far a file may be from PyTorch, for each precision: the one table."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Limits:
    """Largest values that pass, and the smallest top-1 agreement.

    Attributes:
        max_abs: difference of a logit from PyTorch's.
        kl: mean over positions of KL(PyTorch || file), in nats.
        top1: fraction of positions with the same most likely token; tokens whose logits PyTorch
            has within max_abs of each other count as the same.
        consistency: difference of a logit between two ways through the same file: whole, in
            chunks, token by token, in a batch. They differ by the rounding of sums in another order.
        causality: difference of a logit after a change to later tokens. Nothing is summed in another
            order, so 0 is usual.
    """

    max_abs: float
    kl: float
    top1: float
    consistency: float
    causality: float


LIMITS: Final = {
    "fp32": Limits(max_abs=1e-4, kl=1e-6, top1=1.0, consistency=1e-4, causality=1e-6),
}
