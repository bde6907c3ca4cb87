"""What a file is and where it comes from.

Parameters and bytes of each component, and the bits of each matrix, by the file's own recipe.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from edgegpt import contract
from edgegpt.accounting import WeightBytes, account, kv_cache_bytes, parameter_count
from edgegpt.config import ModelConfig
from edgegpt.errors import ArtifactError
from edgegpt.quantization import (
    AUTO,
    FLOAT,
    Recipe,
    block_size,
    matrices,
    matrix_bytes,
    read_recipe,
    recipe,
    weight_bytes,
)
from edgegpt.runtime import Artifact, SamplingParams, file_sha256, read_metadata


@dataclass(frozen=True)
class Facts:
    """A file as it lies on the disk.

    Attributes:
        path: as it was given.
        bytes: of the file and of its external data.
        sha256: of the .onnx file, as `sha256sum` prints it.
        data_file: name of the external data; None where the weights are inside.
        data_sha256: of that file.
        sealed: whether the exporter wrote a checksum behind everything else, which opening has checked.
        config: the model's shape.
        parameters: of the model.
        vocabulary: tokens that the tokenizer knows.
        target: `engine` or `portable`.
        precision: `fp32`, `int8`, `int4` or `auto`.
        kv_cache: of a number in the cache, `fp32` or `int8`.
        kv_bytes_per_token: of the cache.
        weights_sha256: of the checkpoint's model.safetensors; empty where the file does not say.
        tool: what made the file; empty where the file does not say.
        sampling: the file's defaults.
    """

    path: Path
    bytes: int
    sha256: str
    data_file: str | None
    data_sha256: str | None
    sealed: bool
    config: ModelConfig
    parameters: int
    vocabulary: int
    target: str
    precision: str
    kv_cache: str
    kv_bytes_per_token: int
    weights_sha256: str
    tool: str
    sampling: SamplingParams

    @property
    def name(self) -> str:
        """Without the folder, which is nobody else's business."""
        return self.path.name

    @property
    def kv_bytes(self) -> int:
        """One cache of the whole context."""
        return self.kv_bytes_per_token * self.config.block_size


def read_facts(artifact: Artifact) -> Facts:
    """The facts of an open file; raises ArtifactError where it went away meanwhile."""
    try:
        metadata, sha256 = read_metadata(artifact.path), file_sha256(artifact.path)
    except OSError as e:
        raise ArtifactError(f"{artifact.path} cannot be read: {e.strerror or e}") from e
    config = artifact.config
    return Facts(
        path=artifact.path,
        bytes=artifact.bytes,
        sha256=sha256,
        data_file=metadata.get(contract.META_DATA_FILE),
        data_sha256=metadata.get(contract.META_DATA_SHA256),
        sealed=contract.META_FILE_SHA256 in metadata,
        config=config,
        parameters=parameter_count(config),
        vocabulary=artifact.tokenizer.vocab_size,
        target=artifact.target,
        precision=artifact.precision,
        kv_cache=artifact.kv_cache,
        kv_bytes_per_token=kv_cache_bytes(config, 1, artifact.kv_cache),
        weights_sha256=artifact.weights_sha256,
        tool=artifact.tool,
        sampling=artifact.sampling,
    )


_OUTSIDE_BLOCKS: Final = {
    "wte": "token embedding",
    "wpe": "position embedding",
    "norm_f": "norms",
    "head": "head",
}
_INSIDE_BLOCKS: Final = {"attn": "attention", "mlp": "mlp", "norm_1": "norms", "norm_2": "norms"}


@dataclass(frozen=True)
class ComponentSize:
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
    components: tuple[ComponentSize, ...]
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
            ComponentSize(part.name, part.parameters, here.get(part.name, 0), part.weight_bytes)
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
    bits = read_recipe(artifact.recipe, artifact.config, artifact.path)
    if artifact.precision != AUTO and bits != recipe(artifact.config, artifact.precision):
        raise ArtifactError(
            f"{artifact.path} calls itself {artifact.precision}, but its recipe is another; export it again"
        )
    return bits


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
    for name, shape in config.parameter_shapes().items():
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
