"""Proof that a peer computes the same model as edgegpt fp32, before it is timed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgegpt_export.runner import compare
from peer.engine import Logits
from peer.process import Child

# Largest mean KL divergence from edgegpt fp32, in nats, by the bits of the weights. llama.cpp's table of
# GELU in float16 gives 3e-7, 8 bits 1e-4, 4 bits 2e-3; a first attention left out gives 5e-3 and more.
KL_LIMITS = {32: 1e-5, 8: 1e-3, 4: 1e-2}
OWN_LIMIT = 0.9  # of the greedy tokens from the timed path that its own logits agree with
TIE = 1e-2  # logits closer than this are equally likely: random weights have many such
PROMPT, AT_ONCE, STEPS = 64, 32, 32


@dataclass(frozen=True)
class Parity:
    """A peer beside edgegpt fp32 on the same tokens.

    Attributes:
        kl: mean KL(edgegpt fp32 || peer) in nats.
        max_abs: largest difference of a logit.
        top1: fraction of positions with the same most likely token, ties apart.
        own: fraction of tokens chosen by the timed path that are the peer's own most likely.
    """

    kl: float
    max_abs: float
    top1: float
    own: float

    def failure(self, bits: int) -> str | None:
        """Why this is not the same model at this precision; None if it is."""
        limit = KL_LIMITS[bits]
        if not self.kl <= limit:  # also when it is NaN
            return f"computes something else: KL {self.kl:.1e} from edgegpt fp32, at most {limit:.0e} wanted"
        if self.own < OWN_LIMIT:
            return f"its timed path takes other tokens than its logits say: {self.own:.0%} agree"
        return None


def prove(child: Child, reference: Child, prompt: Sequence[int]) -> Parity:
    """Decode greedily by the timed path, then read the same tokens with both and compare logits."""
    _, tokens = child.burst(prompt, STEPS)
    ids = [*prompt, *tokens[:-1]]
    return parity(reference.logits(ids, AT_ONCE), child.logits(ids, AT_ONCE), tokens)


def parity(expected: Logits, got: Logits, tokens: Sequence[int]) -> Parity:
    """Compare logits (L, V) of which the last len(tokens) rows chose `tokens`."""
    row = compare(expected, got, TIE)
    last = got[-len(tokens) :]
    own = last.max(-1) - last[np.arange(len(tokens)), tokens] <= TIE
    return Parity(row.kl, row.max_abs, row.top1, float(own.mean()))
