"""Quantise weights to blocks of 4 or 8 bits and back, in the layout of `edgegpt.quantization`. numpy only.

Shapes: N rows, K columns, G blocks a row, S columns a block (G * S >= K, the rest is zero).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from edgegpt.quantization import block_size

_ROWS: Final = 1 << 20  # weights quantised at once, so that memory does not grow with the matrix
# Divisors tried for the scale of 4 bits. With the largest weight at the end of the range, -8, all
# others fit; a little less clips it and makes the steps finer.
_DIVISORS: Final = np.linspace(-9.0, -5.5, 15, dtype=np.float32)


@dataclass(frozen=True)
class Quantised:
    """A quantised matrix.

    Attributes:
        packed: uint8 (N, G, S * bits / 8); of two weights in a byte the first has the low half.
        scales: float32 (N, G).
        bits: 4 or 8.
    """

    packed: NDArray[np.uint8]
    scales: NDArray[np.float32]
    bits: int


def quantise(weight: NDArray[Any], bits: int) -> Quantised:
    """Quantise a matrix (N, K) in blocks along K, each with the scale of least squared error.

    8 bits: the block's largest magnitude becomes 127. 4 bits: of several scales near the largest
    magnitude / 8 the one with the least squared error, then refitted to its integers by least
    squares; the search is the idea of llama.cpp's Q4_0 and of "clipping" in Banner et al.,
    "Post training 4-bit quantization" (2019).
    """
    columns = weight.shape[1]
    block = block_size(columns, bits)
    parts = [_quantise_rows(_blocks(rows, block), bits) for rows in _row_parts(weight)]
    packed = np.concatenate([packed for packed, _ in parts])
    return Quantised(packed, np.concatenate([scales for _, scales in parts]), bits)


def dequantise(quantised: Quantised, columns: int) -> NDArray[np.float32]:
    """Return the matrix (N, columns) that the runtime multiplies with."""
    q = quantised.packed
    if quantised.bits == 4:
        q = np.stack([q & 15, q >> 4], axis=-1).reshape(*q.shape[:2], -1)
    centred = q.astype(np.float32) - np.float32(1 << (quantised.bits - 1))
    whole: NDArray[np.float32] = centred * quantised.scales[..., None]
    return whole.reshape(len(whole), -1)[:, :columns]


def _row_parts(weight: NDArray[Any]) -> Iterator[NDArray[np.float32]]:
    rows = max(1, _ROWS // weight.shape[1])
    for start in range(0, len(weight), rows):
        yield weight[start : start + rows].astype(np.float32)


def _blocks(rows: NDArray[np.float32], block: int) -> NDArray[np.float32]:
    """Reshape (n, K) -> (n, G, S), padded with zeros."""
    padding = -rows.shape[1] % block
    return np.pad(rows, ((0, 0), (0, padding))).reshape(len(rows), -1, block)


def _quantise_rows(x: NDArray[np.float32], bits: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Quantise (n, G, S) -> packed bytes and scales (n, G)."""
    if bits == 8:
        scales = np.abs(x).max(-1) / np.float32(127)
        return (_integers(x, scales, 127) + 128).astype(np.uint8), scales
    scales = _best_scales(x)
    q = (_integers(x, scales, 7) + 8).astype(np.uint8)
    packed = (q[..., ::2] + 16 * q[..., 1::2]).astype(np.uint8)
    return packed, scales


def _integers(x: NDArray[np.float32], scales: NDArray[np.float32], largest: int) -> NDArray[np.float32]:
    """Return the nearest integers of x / scales, from -largest - 1 to largest; 0 where the scale is 0.

    A subnormal scale, of weights that decayed, counts as 0: its inverse would be infinite.
    """
    normal = np.abs(scales) >= np.finfo(np.float32).tiny
    inverse = np.divide(1, scales, out=np.zeros_like(scales), where=normal)
    integers: NDArray[np.float32] = np.clip(np.rint(x * inverse[..., None]), -largest - 1, largest)
    return integers


def _best_scales(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Search scales, (n, G, S) -> (n, G); one may be negative, to map the largest weight to -8."""
    where = np.abs(x).argmax(-1)[..., None]
    extreme = np.take_along_axis(x, where, -1)[..., 0]
    best, least = np.zeros_like(extreme), np.full_like(extreme, np.inf)
    for divisor in _DIVISORS:
        scales = _refit(x, extreme / divisor)
        error = np.square(x - _integers(x, scales, 7) * scales[..., None]).sum(-1)
        better = error < least
        best[better], least[better] = scales[better], error[better]
    return best


def _refit(x: NDArray[np.float32], scales: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the scales of least squared error for the integers that `scales` gives."""
    q = _integers(x, scales, 7)
    squares = np.square(q).sum(-1)
    fit: NDArray[np.float32] = np.divide(
        (x * q).sum(-1), squares, out=np.zeros_like(scales), where=squares != 0
    )
    return fit
