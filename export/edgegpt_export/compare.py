"""Two arrays of logits, compared. Shapes: L positions, V vocab_size."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from edgegpt.runtime.self_check import kl
from edgegpt_export.evidence import Row
from edgegpt_export.runner import Logits

_POSITIONS: Final = 64  # at once, so that memory does not grow with L


def compare(reference: Logits, logits: Logits, tie: float) -> Row:
    """PyTorch's logits (L, V) against the file's; tokens within `tie` in `reference` are equally likely."""
    total, agreed = 0.0, 0
    for expected, got in _parts(reference, logits):
        total += float(kl(expected, got).sum())
        at_its_choice = expected[np.arange(len(expected)), got.argmax(-1)]
        agreed += int((expected.max(-1) - at_its_choice <= tie).sum())
    length = len(reference)
    return Row(length, max_abs(reference, logits), total / length, agreed / length)


def max_abs(a: Logits, b: Logits) -> float:
    """Largest difference between two arrays (L, V): NaN if either holds one, 0 if L is 0."""
    return float(np.max([0.0, *(np.abs(x - y).max() for x, y in _parts(a, b))]))  # np.max keeps NaN


def worst_kl(reference: Logits, logits: Logits) -> float:
    """Largest KL(reference || logits) of a position, in nats; NaN if either holds one, 0 if L is 0."""
    return float(np.max([0.0, *(kl(x, y).max() for x, y in _parts(reference, logits))]))


def mean_kl(reference: Sequence[Logits], logits: Sequence[Logits]) -> float:
    """Mean over all positions of all pairs of KL(reference || logits), in nats."""
    pairs = [pair for a, b in zip(reference, logits, strict=True) for pair in _parts(a, b)]
    return float(np.concatenate([kl(*pair) for pair in pairs]).mean())


def _parts(a: Logits, b: Logits) -> Iterator[tuple[Logits, Logits]]:
    if a.shape != b.shape:
        raise ValueError(f"logits of the shapes {a.shape} and {b.shape} cannot be compared")
    for start in range(0, len(a), _POSITIONS):
        yield a[start : start + _POSITIONS], b[start : start + _POSITIONS]
