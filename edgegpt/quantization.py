"""Which matrices of a model have how many bits: a recipe."""

from collections.abc import Mapping
from typing import Final

from edgegpt.accounting import parameter_shapes
from edgegpt.config.model import ModelConfig
from edgegpt.packing import FLOAT, is_padded, matrix_bytes

Recipe = Mapping[str, int]  # bits by name of the matrix: 4, 8, or 32 for float32

PRECISIONS: Final = ("fp32", "int8", "int4")
AUTO: Final = "auto"

# Looked up and not multiplied, or both, and the matrix in front of the softmax: where 4 bits hurt most.
_EIGHT_BITS_AT_LEAST: Final = ("wte.weight", "wpe.weight", "head.weight")
_TABLES: Final = ("wte.weight", "wpe.weight")


def matrices(config: ModelConfig) -> dict[str, tuple[int, int]]:
    """Shape (rows, columns) of every matrix by name, in the module's order; a tied head is wte's."""
    shapes = parameter_shapes(config)
    return {name: (shape[0], shape[1]) for name, shape in shapes.items() if len(shape) == 2}


def recipe(config: ModelConfig, precision: str) -> dict[str, int]:
    """The recipe of a named precision.

    int8 has 8 bits everywhere. int4 has 8 in the embeddings and the head and 4 in the blocks.
    Biases and norms are float32 always, as is an embedding whose width is no multiple of 16.
    """
    return {name: _bits(name, columns, precision) for name, (_, columns) in matrices(config).items()}


def weight_bytes(config: ModelConfig, bits: Recipe) -> int:
    """Bytes of all weights and scales stored by a recipe, each once."""
    shapes = parameter_shapes(config)
    vectors = sum(4 * shape[0] for shape in shapes.values() if len(shape) == 1)
    return vectors + sum(matrix_bytes(*shape, bits[name]) for name, shape in matrices(config).items())


def possible_bits(name: str, columns: int) -> tuple[int, ...]:
    """The bits a matrix may have, fewest first."""
    if name in _TABLES and is_padded(columns):
        return (FLOAT,)
    return (8, FLOAT) if name in _EIGHT_BITS_AT_LEAST else (4, 8, FLOAT)


def _bits(name: str, columns: int, precision: str) -> int:
    wanted = {"fp32": FLOAT, "int8": 8, "int4": 4}[precision]
    return min(bits for bits in possible_bits(name, columns) if bits >= wanted)
