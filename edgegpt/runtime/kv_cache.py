"""Keys and values of the tokens that a model has read, in buffers allocated once."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from edgegpt.errors import CacheError


class KVCache:
    """Preallocated keys and values, the first `length` positions in use; CacheError for a size below 1.

    Attributes:
        arrays: keys, then values, of each layer, (1, n_kv_head, capacity, head_dim), float32 or int8.
        capacity: positions allocated.
        length: positions in use.
    """

    def __init__(
        self, n_layer: int, n_kv_head: int, capacity: int, head_dim: int, dtype: DTypeLike = np.float32
    ) -> None:
        shape = (1, n_kv_head, capacity, head_dim)
        if n_layer < 1 or min(shape) < 1:
            raise CacheError(f"every size of a cache must be at least 1, got {n_layer} layers of {shape}")
        # zeros and not empty: the system then allocates pages only as they are written.
        self.arrays: list[NDArray[Any]] = [np.zeros(shape, dtype) for _ in range(2 * n_layer)]
        self.capacity = capacity
        self.length = 0

    @property
    def bytes(self) -> int:
        """Size of the buffers in bytes."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def room(self) -> int:
        """Number of free positions."""
        return self.capacity - self.length

    def append(self, n: int) -> None:
        """Mark the next n positions as in use; the graph writes them into `arrays`.

        Raises:
            CacheError: fewer than n positions are free.
        """
        if not 0 <= n <= self.capacity - self.length:  # `room`, without a call
            raise CacheError(
                f"cannot append {n} positions to a cache with {self.length} of {self.capacity} in use"
            )
        self.length += n

    def rewind(self, n: int) -> None:
        """Drop all positions from n on.

        Raises:
            CacheError: n is not within 0 to `length`.
        """
        if not 0 <= n <= self.length:
            raise CacheError(f"cannot rewind to position {n} of a cache with {self.length} positions in use")
        self.length = n

    def fork(self) -> "KVCache":
        """Return an independent copy of the positions in use."""
        _, n_kv_head, _, head_dim = self.arrays[0].shape
        dtype = self.arrays[0].dtype
        copy = KVCache(len(self.arrays) // 2, n_kv_head, self.capacity, head_dim, dtype)
        for source, target in zip(self.arrays, copy.arrays, strict=True):
            target[:, :, : self.length] = source[:, :, : self.length]
        copy.length = self.length
        return copy
