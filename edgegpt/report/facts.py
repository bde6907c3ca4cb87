"""Facts of a file: shape, origin and checksums, and the bytes and bits of its weights."""

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
    FLOAT,
    Recipe,
    block_size,
    matrices,
    matrix_bytes,
    read_recipe,
    weight_bytes,
)
from edgegpt.runtime import Artifact, SamplingParams, file_sha256, read_metadata

_OUTSIDE_BLOCKS: Final = {
    "wte": "token embedding",
    "wpe": "position embedding",
    "norm_f": "norms",
    "head": "head",
}
_INSIDE_BLOCKS: Final = {"attn": "attention", "mlp": "mlp", "norm_1": "norms", "norm_2": "norms"}


@dataclass(frozen=True)
class Facts:
    """A file on disk and its metadata.

    Attributes:
        path: as given by the user.
        bytes: size of the file and of its external data.
        sha256: checksum of the .onnx file, as `sha256sum` prints it.
        data_file: name of the external data; None if the weights are inside the file.
        data_sha256: checksum of the external data.
        sealed: True if the file holds a checksum of its content, which was verified on opening.
        config: the model's shape.
        parameters: number of parameters.
        vocabulary: number of tokens in the tokenizer.
        target: `engine` or `portable`.
        precision: `fp32`, `int8`, `int4` or `auto`.
        kv_cache: precision of the KV cache, `fp32` or `int8`.
        kv_bytes_per_token: size of the KV cache.
        weights_sha256: checksum of the checkpoint's model.safetensors; empty if the file holds none.
        tool: name and version of the exporter; empty if the file holds none.
        sampling: the file's sampling defaults.
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
        """File name only; the path is private."""
        return self.path.name

    @property
    def kv_bytes(self) -> int:
        """Size of one KV cache for the whole context."""
        return self.kv_bytes_per_token * self.config.block_size


@dataclass(frozen=True)
class ComponentSize:
    """Size of one component of the model.

    Attributes:
        name: name as in `edgegpt params`.
        parameters: number of parameters.
        here: bytes in this file, scales included.
        named: bytes in each named precision.
    """

    name: str
    parameters: int
    here: int
    named: WeightBytes


@dataclass(frozen=True)
class MatrixKind:
    """The matrices of one name in all blocks, or one matrix outside the blocks.

    Attributes:
        name: name inside its block, as `attn.qkv.weight`.
        rows, columns: shape of each matrix.
        count: number of matrices.
        bits: number of matrices by bits, in ascending order of bits.
        blocks: columns that share a scale, by bits; without float32.
        bytes: size of all of them, scales included.
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
        bits: bits of each matrix, by its name.
        components: sizes of the model's components.
        kinds: the matrices by kind.
        bytes: size of all weights and scales, each counted once.
        around: bytes of the rest of the file: graph, tokenizer, verification result.
        why: how an `auto` recipe was found, from the file; empty for a named precision.
    """

    bits: Recipe
    components: tuple[ComponentSize, ...]
    kinds: tuple[MatrixKind, ...]
    bytes: int
    around: int
    why: dict[str, Any]

    @property
    def mixed(self) -> bool:
        """True if matrices of one kind differ in their bits."""
        return any(len(kind.bits) > 1 for kind in self.kinds)


def read_facts(artifact: Artifact) -> Facts:
    """Read the facts of an open file; raise ArtifactError if it can no longer be read."""
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


def read_weights(artifact: Artifact) -> Weights:
    """Read the weights of an open file; raise ArtifactError if its recipe is not one of this model."""
    config = artifact.config
    bits = read_recipe(artifact.recipe, config, artifact.path)
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
        why={key: value for key, value in artifact.recipe.items() if key not in ("bits", "weights")},
    )


def kind_of(name: str) -> str:
    """Return a matrix's name without its block: `blocks.3.attn.qkv.weight` -> `attn.qkv.weight`."""
    return name.split(".", 2)[2] if name.startswith("blocks.") else name


def _bytes_here(config: ModelConfig, bits: Recipe) -> Counter[str]:
    """Return the bytes of each component, by the names of `account`; a tied head has no entry."""
    found: Counter[str] = Counter()
    for name, shape in config.parameter_shapes().items():
        size = matrix_bytes(shape[0], shape[1], bits[name]) if len(shape) == 2 else 4 * shape[0]
        found[_component_of(name)] += size
    return found


def _component_of(name: str) -> str:
    parts = name.split(".")
    return _INSIDE_BLOCKS[parts[2]] if parts[0] == "blocks" else _OUTSIDE_BLOCKS[parts[0]]


def _kinds(config: ModelConfig, bits: Recipe) -> Iterator[MatrixKind]:
    by_kind: dict[str, list[str]] = {}
    shapes = matrices(config)
    for name in shapes:
        by_kind.setdefault(kind_of(name), []).append(name)
    for kind, names in by_kind.items():
        rows, columns = shapes[names[0]]
        counted = Counter(bits[name] for name in names)
        yield MatrixKind(
            name=kind,
            rows=rows,
            columns=columns,
            count=len(names),
            bits=dict(sorted(counted.items())),
            blocks={number: block_size(columns, number) for number in sorted(counted) if number != FLOAT},
            bytes=sum(matrix_bytes(rows, columns, bits[name]) for name in names),
        )
