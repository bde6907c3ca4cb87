"""How a quantised matrix is stored: blocks of weights along the input, a float32 scale each.

The layout is that of onnxruntime's MatMulNBits and GatherBlockQuantized, symmetric: a weight is
(q - 2^(bits - 1)) * scale. Shapes: N rows (outputs), K columns (inputs), a block is `block` columns.
"""

from math import ceil
from typing import Final

FLOAT: Final = 32  # bits of a matrix that is not quantised
BITS: Final = (4, 8, FLOAT)

_SCALE_BYTES: Final = 4
# The larger the block the faster the product, by up to a third, and the coarser the weights
# (benchmarks/matmul_nbits.py). A row that no block divides is padded, which costs less than blocks of 16.
_LARGEST: Final = {4: 128, 8: 256}
_SMALLEST: Final = 16
_PADDED: Final = 32


def block_size(columns: int, bits: int) -> int:
    """Columns that share one scale: the largest power of two up to 128 (8 bits: 256) that divides them.

    32 where not even 16 does; the last block of a row is then padded.
    """
    block = _LARGEST[bits]
    while block >= _SMALLEST:
        if columns % block == 0:
            return block
        block //= 2
    return _PADDED


def is_padded(columns: int) -> bool:
    """Whether no block divides the columns. Such a matrix can be multiplied, but its rows not looked up."""
    return columns % _SMALLEST != 0


def matrix_bytes(rows: int, columns: int, bits: int) -> int:
    """Bytes of a matrix (rows, columns) with its scales; `bits` is 4, 8, or 32 for float32."""
    if bits == FLOAT:
        return 4 * rows * columns
    block = block_size(columns, bits)
    return rows * ceil(columns / block) * (block * bits // 8 + _SCALE_BYTES)
