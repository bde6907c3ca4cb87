"""Choose the bits of every matrix: a named precision, or mixed precision within a limit."""

import json
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgegpt.config import ModelConfig
from edgegpt.errors import EdgeGPTError
from edgegpt.quantization import FLOAT, Recipe, matrices, matrix_bytes, recipe, weight_bytes
from edgegpt.runtime import LIMITS, Limits

# Mean KL(float32 || this matrix alone quantised), in nats, by name and bits.
Sensitivities = dict[str, dict[int, float]]


@dataclass(frozen=True)
class Quantisation:
    """Precision, recipe and cache type of one file.

    Attributes:
        precision: name of the precision, `fp32`, `int8`, `int4` or `auto`.
        bits: bits of every matrix, by name.
        kv_cache: type of the numbers in the cache, `fp32` or `int8`.
        why: how an `auto` recipe was found, as JSON values.
    """

    precision: str
    bits: Recipe
    kv_cache: str = "fp32"
    why: Mapping[str, Any] = field(default_factory=dict)

    @property
    def limits(self) -> Limits:
        """Limits of the verification; float32 weights with an int8 cache get those of int8."""
        coarser = self.precision == "fp32" and self.kv_cache == "int8"
        return LIMITS["int8" if coarser else self.precision]

    def to_json(self) -> str:
        """Return the file's metadata entry; {} where no matrix is quantised."""
        if self.precision == "fp32":
            return "{}"
        weights = "symmetric blocks along the input, scales of least squared error"
        return json.dumps({"weights": weights, "bits": dict(self.bits), **self.why}, separators=(",", ":"))


def preset(config: ModelConfig, precision: str, kv_cache: str = "fp32") -> Quantisation:
    """Return the quantisation of a named precision."""
    return Quantisation(precision, recipe(config, precision), kv_cache)


@dataclass(frozen=True)
class Upgrade:
    """More bits for one matrix: the bytes that they add and the KL, in nats, that they remove."""

    name: str
    bits: int
    bytes: int
    kl: float

    @property
    def gain(self) -> float:
        """KL removed for each byte added."""
        return self.kl / self.bytes


def smallest_recipe(found: Sensitivities) -> dict[str, int]:
    """Return the recipe with the fewest possible bits everywhere."""
    return {name: min(by_bits) for name, by_bits in found.items()}


def upgrades(config: ModelConfig, found: Sensitivities) -> list[Upgrade]:
    """Return the steps from the smallest recipe to float32, in order of decreasing gain.

    A matrix's steps are the lower convex hull of its bytes and its KL, so that a later step never
    gains more than an earlier one and the order is that of Lagrangian rate allocation (Shoham and
    Gersho, "Efficient bit allocation for an arbitrary set of quantizers", 1988).
    """
    steps = []
    for name, shape in matrices(config).items():
        kl = found[name]
        bits = min(kl)
        while bits != FLOAT:
            step = max((_upgrade(name, shape, kl, bits, more) for more in kl if more > bits), key=_by_gain)
            steps.append(step)
            bits = step.bits
    return sorted(steps, key=_by_gain, reverse=True)


def within_bytes(config: ModelConfig, found: Sensitivities, most: int) -> dict[str, int]:
    """Return a recipe of small summed KL whose weights take at most `most` bytes.

    Greedy: a step that does not fit is skipped, with the later ones of its matrix.

    Raises:
        EdgeGPTError: not even the smallest recipe fits.
    """
    recipe = smallest_recipe(found)
    room = most - weight_bytes(config, recipe)
    if room < 0:
        raise EdgeGPTError(f"the weights of the smallest recipe take {weight_bytes(config, recipe):,} bytes")
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
    """Return the first recipe between the smallest and float32 whose KL is at most `most`, and its KL.

    Found by bisection: `measure` is called about log2 of the number of steps times.
    """
    steps = upgrades(config, found)
    measured: dict[int, float] = {}

    def kl(count: int) -> float:
        if count not in measured:
            measured[count] = measure(_after(found, steps[:count]))
        return measured[count]

    # Bisection needs ascending values, and the KL descends.
    count = bisect_left(range(len(steps)), -most, key=lambda n: -kl(n))
    return _after(found, steps[:count]), kl(count)


def _after(found: Sensitivities, steps: Sequence[Upgrade]) -> dict[str, int]:
    return {**smallest_recipe(found), **{step.name: step.bits for step in steps}}


def _upgrade(name: str, shape: tuple[int, int], kl: dict[int, float], bits: int, more: int) -> Upgrade:
    cost = matrix_bytes(*shape, more) - matrix_bytes(*shape, bits)
    return Upgrade(name, more, cost, kl[bits] - kl[more])


def _by_gain(step: Upgrade) -> float:
    return step.gain
