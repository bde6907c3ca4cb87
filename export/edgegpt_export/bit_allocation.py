"""What of a model is stored in few bits, decided before the graph is built.

The smallest mix of precisions within a limit, matrix by matrix.
"""

import json
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgegpt.config import ModelConfig
from edgegpt.errors import EdgeGPTError
from edgegpt.quantization import FLOAT, Recipe, matrices, matrix_bytes, recipe, weight_bytes
from edgegpt_export.calibration import Sensitivities
from edgegpt_export.evidence import LIMITS, Limits


@dataclass(frozen=True)
class Quantisation:
    """The recipe of one file.

    Attributes:
        precision: its name, `fp32`, `int8`, `int4` or `auto`.
        bits: of every matrix.
        kv_cache: of a number in the cache, `fp32` or `int8`.
        why: how an `auto` recipe was found, as JSON values.
    """

    precision: str
    bits: Recipe
    kv_cache: str = "fp32"
    why: Mapping[str, Any] = field(default_factory=dict)

    @property
    def limits(self) -> Limits:
        """What verification allows; float32 weights with an int8 cache are judged as int8."""
        coarser = self.precision == "fp32" and self.kv_cache == "int8"
        return LIMITS["int8" if coarser else self.precision]

    def to_json(self) -> str:
        """What is stamped into the file; {} where nothing is quantised."""
        if self.precision == "fp32":
            return "{}"
        weights = "symmetric blocks along the input, scales of least squared error"
        return json.dumps({"weights": weights, "bits": dict(self.bits), **self.why}, separators=(",", ":"))


def preset(config: ModelConfig, precision: str, kv_cache: str = "fp32") -> Quantisation:
    """The quantisation of a named precision."""
    return Quantisation(precision, recipe(config, precision), kv_cache)


@dataclass(frozen=True)
class Upgrade:
    """More bits for one matrix: what they cost and what they bring."""

    name: str
    bits: int
    bytes: int
    kl: float

    @property
    def worth(self) -> float:
        """Nats saved per byte."""
        return self.kl / self.bytes


def smallest_recipe(found: Sensitivities) -> dict[str, int]:
    """Fewest bits everywhere."""
    return {name: min(by_bits) for name, by_bits in found.items()}


def upgrades(config: ModelConfig, found: Sensitivities) -> list[Upgrade]:
    """Every step from the smallest recipe to float32 that is worth taking, the most worthwhile first.

    A matrix's steps are the lower convex hull of its bytes and its KL, so that the next one is never
    worth more than the one before it and the order is that of Lagrangian rate allocation (Shoham and
    Gersho, "Efficient bit allocation for an arbitrary set of quantizers", 1988).
    """
    steps = []
    for name, shape in matrices(config).items():
        kl = found[name]
        bits = min(kl)
        while bits != FLOAT:
            step = max((_upgrade(name, shape, kl, bits, more) for more in kl if more > bits), key=_by_worth)
            steps.append(step)
            bits = step.bits
    return sorted(steps, key=_by_worth, reverse=True)


def within_bytes(config: ModelConfig, found: Sensitivities, most: int) -> dict[str, int]:
    """The recipe of least summed KL among those whose weights take at most so many bytes.

    Greedy: a step that does not fit is left out, with the later ones of its matrix.

    Raises:
        EdgeGPTError: not even the smallest recipe fits.
    """
    recipe = smallest_recipe(found)
    room = most - weight_bytes(config, recipe)
    if room < 0:
        raise EdgeGPTError(f"the weights of the smallest mix take {weight_bytes(config, recipe):,} bytes")
    full: set[str] = set()
    for step in upgrades(config, found):
        if step.name in full:
            continue
        if step.bytes > room:
            full.add(step.name)
            continue
        recipe[step.name] = step.bits
        room -= step.bytes
    return recipe


def within_kl(
    config: ModelConfig, found: Sensitivities, most: float, measure: Callable[[Recipe], float]
) -> tuple[dict[str, int], float]:
    """The first recipe on the way from the smallest to float32 whose measured KL is at most `most`.

    Found by bisection: `measure` is asked about log2 of the steps, not about every one. Returns the
    recipe and its KL.
    """
    steps = upgrades(config, found)
    measured: dict[int, float] = {}

    def kl(count: int) -> float:
        if count not in measured:
            measured[count] = measure(_after(found, steps[:count]))
        return measured[count]

    # Negated, the KL rises along the way as bisection wants it.
    count = bisect_left(range(len(steps)), -most, key=lambda n: -kl(n))
    return _after(found, steps[:count]), kl(count)


def _after(found: Sensitivities, steps: Sequence[Upgrade]) -> dict[str, int]:
    return {**smallest_recipe(found), **{step.name: step.bits for step in steps}}


def _upgrade(name: str, shape: tuple[int, int], kl: dict[int, float], bits: int, more: int) -> Upgrade:
    cost = matrix_bytes(*shape, more) - matrix_bytes(*shape, bits)
    return Upgrade(name, more, cost, kl[bits] - kl[more])


def _by_worth(step: Upgrade) -> float:
    return step.worth
