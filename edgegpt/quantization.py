"""Bits of every matrix of a model (a recipe), the block layout of a quantised matrix, and bytes.

A quantised matrix is stored as blocks of weights along the input, with a float32 scale each. The layout
is that of onnxruntime's MatMulNBits and GatherBlockQuantized, symmetric: a weight is
(q - 2^(bits - 1)) * scale. Shapes: N rows (outputs), K columns (inputs), a block is `block` columns.
"""

from collections.abc import Mapping
from math import ceil
from typing import Any, Final

from edgegpt.config import ModelConfig
from edgegpt.errors import ArtifactError

Recipe = Mapping[str, int]  # bits by name of the matrix: 4, 8, or 32 for float32

PRECISIONS: Final = ("fp32", "int8", "int4")
AUTO: Final = "auto"
FLOAT: Final = 32  # bits of a matrix that is not quantised
BITS: Final = (4, 8, FLOAT)

# Tables that are looked up, and the matrix before the softmax: where 4 bits cost most accuracy.
_EIGHT_BITS_AT_LEAST: Final = ("wte.weight", "wpe.weight", "head.weight")
_TABLES: Final = ("wte.weight", "wpe.weight")

_SCALE_BYTES: Final = 4
# The larger the block the faster the product, by up to a third, and the coarser the weights
# (benchmarks/matmul_nbits.py). A row that no block divides is padded, which costs less than blocks of 16.
_LARGEST: Final = {4: 128, 8: 256}
_SMALLEST: Final = 16
_PADDED: Final = 32


def matrices(config: ModelConfig) -> dict[str, tuple[int, int]]:
    """Return shapes (rows, columns) of all matrices by name, in the module's order; a tied head is wte's."""
    shapes = config.parameter_shapes()
    return {name: (shape[0], shape[1]) for name, shape in shapes.items() if len(shape) == 2}


def recipe(config: ModelConfig, precision: str) -> dict[str, int]:
    """Return the recipe of a named precision.

    int8 has 8 bits everywhere. int4 has 8 in the embeddings and the head and 4 in the blocks.
    Biases and norms are float32 always, as is an embedding whose width is not a multiple of 16.
    """
    return {name: _bits(name, columns, precision) for name, (_, columns) in matrices(config).items()}


def read_recipe(stored: Mapping[str, Any], config: ModelConfig, file: object) -> Recipe:
    """Return the bits of every matrix from a file's metadata; a file that is not quantised has no entry.

    Args:
        stored: the JSON object under the metadata key of the recipe.
        config: the file's config.
        file: path, for the message.

    Raises:
        ArtifactError: the entry does not give 4, 8 or 32 bits for each matrix of the config.
    """
    usual = recipe(config, "fp32")
    bits = stored.get("bits", usual)
    named = isinstance(bits, dict) and bits.keys() == usual.keys()
    if not named or not all(type(number) is int and number in BITS for number in bits.values()):
        raise ArtifactError(
            f"the recipe in {file} does not give 4, 8 or 32 bits for each matrix of its model; "
            "export it again"
        )
    return dict(bits)


def possible_bits(name: str, columns: int) -> tuple[int, ...]:
    """Return the bits that a matrix may have, in ascending order."""
    if name in _TABLES and is_padded(columns):
        return (FLOAT,)
    return (8, FLOAT) if name in _EIGHT_BITS_AT_LEAST else (4, 8, FLOAT)


def block_size(columns: int, bits: int) -> int:
    """Return the columns that share one scale: the largest power of two up to 128 that divides them.

    Up to 256 for 8 bits; 32 where not even 16 divides them, and the last block of a row is then padded.
    """
    block = _LARGEST[bits]
    while block >= _SMALLEST:
        if columns % block == 0:
            return block
        block //= 2
    return _PADDED


def is_padded(columns: int) -> bool:
    """Return whether no block divides the columns; rows of such a matrix cannot be looked up quantised."""
    return columns % _SMALLEST != 0


def matrix_bytes(rows: int, columns: int, bits: int) -> int:
    """Return the bytes of a matrix (rows, columns) with its scales; `bits` is 4, 8, or 32 for float32."""
    if bits == FLOAT:
        return 4 * rows * columns
    block = block_size(columns, bits)
    return rows * ceil(columns / block) * (block * bits // 8 + _SCALE_BYTES)


def weight_bytes(config: ModelConfig, bits: Recipe) -> int:
    """Return the bytes of all weights and scales stored by a recipe, each counted once."""
    shapes = config.parameter_shapes()
    vectors = sum(4 * shape[0] for shape in shapes.values() if len(shape) == 1)
    return vectors + sum(matrix_bytes(*shape, bits[name]) for name, shape in matrices(config).items())


def weight_bytes_per_token(config: ModelConfig, bits: Recipe) -> int:
    """Return the bytes of weights and scales that one decode step reads, from memory or CPU caches.

    Each embedding counts with the one row that is looked up, all other matrices whole; a tied head is
    the token embedding and counts whole.
    """
    looked_up = ["wpe.weight"] if config.tie_embeddings else ["wpe.weight", "wte.weight"]
    shapes = matrices(config)
    unread = sum(matrix_bytes(shapes[name][0] - 1, shapes[name][1], bits[name]) for name in looked_up)
    return weight_bytes(config, bits) - unread


def _bits(name: str, columns: int, precision: str) -> int:
    wanted = {"fp32": FLOAT, "int8": 8, "int4": 4}[precision]
    return min(bits for bits in possible_bits(name, columns) if bits >= wanted)
