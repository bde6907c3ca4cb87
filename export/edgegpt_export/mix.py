"""The smallest mix of precisions within a limit, matrix by matrix."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgegpt.config.model import ModelConfig
from edgegpt.errors import EdgeGPTError
from edgegpt.quantization import FLOAT, Recipe, matrices, matrix_bytes, weight_bytes
from edgegpt_export.sensitivity import Sensitivities


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
