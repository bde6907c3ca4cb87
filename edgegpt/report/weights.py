"""Parameters and bytes of each component, and the bits of each matrix, by the file's own recipe."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from edgegpt.accounting import WeightBytes, account, parameter_shapes
from edgegpt.config.model import ModelConfig
from edgegpt.errors import ArtifactError
from edgegpt.quantization import (
    AUTO,
    BITS,
    FLOAT,
    Recipe,
    block_size,
    matrices,
    matrix_bytes,
    recipe,
    weight_bytes,
)
from edgegpt.runtime.artifact import Artifact

_OUTSIDE_BLOCKS: Final = {
    "wte": "token embedding",
    "wpe": "position embedding",
    "norm_f": "norms",
    "head": "head",
}
_INSIDE_BLOCKS: Final = {"attn": "attention", "mlp": "mlp", "norm_1": "norms", "norm_2": "norms"}


@dataclass(frozen=True)
class Component:
    """One part of the model.

    Attributes:
        name: as in `edgegpt params`.
        parameters: of it.
        here: bytes in this file, scales included.
        named: bytes in each named precision.
    """

    name: str
    parameters: int
    here: int
    named: WeightBytes


@dataclass(frozen=True)
class Kind:
    """All matrices of one place in the blocks, or one outside them.

    Attributes:
        name: as `attn.qkv.weight`.
        rows, columns: of each.
        count: how many there are.
        bits: number of matrices by bits, fewest bits first.
        blocks: columns that share a scale, by bits; without float32.
        bytes: of all together, scales included.
    """

    name: str
    rows: int
    columns: int
    count: int
    bits: dict[int, int]
    blocks: dict[int, int]
    bytes: int


@dataclass(frozen=True)
class Weights:
    """The weights of one file.

    Attributes:
        bits: of every matrix, by its name.
        components: the parts of the model.
        kinds: of matrices.
        bytes: of all weights and scales, each once.
        around: what the file holds beside them: graph, tokenizer, evidence.
        why: how an `auto` recipe was found, as the exporter stamped it; empty for a named precision.
    """

    bits: Recipe
    components: tuple[Component, ...]
    kinds: tuple[Kind, ...]
    bytes: int
    around: int
    why: dict[str, Any]

    @property
    def mixed(self) -> bool:
        """Whether the same place has different bits in different blocks."""
        return any(len(kind.bits) > 1 for kind in self.kinds)


def read_weights(artifact: Artifact) -> Weights:
    """The weights of an open file; raises ArtifactError where its recipe is not one of this model."""
    config, bits = artifact.config, _bits(artifact)
    here = _bytes_here(config, bits)
    total = weight_bytes(config, bits)
    return Weights(
        bits=bits,
        components=tuple(
            Component(part.name, part.parameters, here.get(part.name, 0), part.weight_bytes)
            for part in account(config).components
        ),
        kinds=tuple(_kinds(config, bits)),
        bytes=total,
        around=artifact.bytes - total,
        why=_why(artifact),
    )


def kind_of(name: str) -> str:
    """`blocks.3.attn.qkv.weight` -> `attn.qkv.weight`; what is outside the blocks is its own kind."""
    return name.split(".", 2)[2] if name.startswith("blocks.") else name


def _bits(artifact: Artifact) -> Recipe:
    usual = recipe(artifact.config, "fp32")
    bits = artifact.recipe.get("bits", usual)
    # A float, a truth value or a list are no bits, though the first two equal some or can be looked up.
    numbers = bits.values() if isinstance(bits, dict) and bits.keys() == usual.keys() else [None]
    if not all(type(few) is int and few in BITS for few in numbers):
        raise ArtifactError(
            f"the recipe in {artifact.path} does not say 4, 8 or 32 bits for each matrix of its model; "
            "export it again"
        )
    if artifact.precision != AUTO and bits != recipe(artifact.config, artifact.precision):
        raise ArtifactError(
            f"{artifact.path} calls itself {artifact.precision}, but its recipe is another; export it again"
        )
    return {name: int(few) for name, few in bits.items()}


def _why(artifact: Artifact) -> dict[str, Any]:
    """What the page shows of it is a number or a text; the rest stays as it is."""
    why = {key: value for key, value in artifact.recipe.items() if key not in ("bits", "weights")}
    try:
        if "limit" in why:
            why["limit"] = {name: float(value) for name, value in why["limit"].items()}
        if "kl" in why:
            why["kl"] = float(why["kl"])
    except (TypeError, ValueError, AttributeError, OverflowError) as e:
        raise ArtifactError(
            f"the recipe in {artifact.path} does not say in numbers which limit it keeps; export it again"
        ) from e
    return why


def _bytes_here(config: ModelConfig, bits: Recipe) -> Counter[str]:
    """By the names of `account`; a tied head has none of its own."""
    found: Counter[str] = Counter()
    for name, shape in parameter_shapes(config).items():
        size = matrix_bytes(shape[0], shape[1], bits[name]) if len(shape) == 2 else 4 * shape[0]
        found[_component_of(name)] += size
    return found


def _component_of(name: str) -> str:
    parts = name.split(".")
    return _INSIDE_BLOCKS[parts[2]] if parts[0] == "blocks" else _OUTSIDE_BLOCKS[parts[0]]


def _kinds(config: ModelConfig, bits: Recipe) -> Iterator[Kind]:
    by_kind: dict[str, list[str]] = {}
    shapes = matrices(config)
    for name in shapes:
        by_kind.setdefault(kind_of(name), []).append(name)
    for kind, names in by_kind.items():
        rows, columns = shapes[names[0]]
        counted = Counter(bits[name] for name in names)
        yield Kind(
            name=kind,
            rows=rows,
            columns=columns,
            count=len(names),
            bits=dict(sorted(counted.items())),
            blocks={few: block_size(columns, few) for few in sorted(counted) if few != FLOAT},
            bytes=sum(matrix_bytes(rows, columns, bits[name]) for name in names),
        )
