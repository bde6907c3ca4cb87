"""Between what was measured."""

import math
from bisect import bisect_right
from collections.abc import Sequence

from edgegpt.prediction.target import CacheStreaming, Streaming


class Curve:
    """Microseconds a MB by tokens and working set: a table, and straight lines over its logarithms.

    Beyond the table its edges hold: a larger working set comes from memory, and what that costs was
    measured; more tokens hide it as well as the most that were measured.
    """

    def __init__(self, table: dict[int, list[tuple[float, float]]]) -> None:
        self._tokens = sorted(table)
        rows = [sorted(table[n]) for n in self._tokens]
        self._sizes = [[size for size, _ in points] for points in rows]
        self._costs = [[cost for _, cost in points] for points in rows]

    @classmethod
    def of_streaming(cls, rows: Sequence[Streaming], bits: int) -> "Curve":
        """The rows of these bits."""
        table: dict[int, list[tuple[float, float]]] = {}
        for row in rows:
            if row.bits == bits:
                table.setdefault(row.tokens, []).append((row.working_set_mb, row.us_per_mb))
        return cls(table)

    @classmethod
    def of_cache(cls, rows: Sequence[CacheStreaming]) -> "Curve":
        """Of keys and values, whatever the number of tokens."""
        return cls({1: [(row.working_set_mb, row.us_per_mb) for row in rows]})

    def at(self, tokens: int, working_set_mb: float) -> float:
        """Microseconds that a MB costs more than near."""
        low, high, share = between(self._tokens, tokens)
        cost = self._one(low, working_set_mb)
        return cost + share * (self._one(high, working_set_mb) - cost) if share else cost

    def _one(self, row: int, working_set_mb: float) -> float:
        sizes, costs = self._sizes[row], self._costs[row]
        i = bisect_right(sizes, working_set_mb)
        if i == 0 or i == len(sizes):
            return costs[0] if i == 0 else costs[-1]
        share = math.log(working_set_mb / sizes[i - 1]) / math.log(sizes[i] / sizes[i - 1])
        return costs[i - 1] + share * (costs[i] - costs[i - 1])


def between(grid: Sequence[int], value: int) -> tuple[int, int, float]:
    """Where on a sorted grid the neighbours of a value stand, and how far it is from the lower one, 0 to 1.

    A value beyond the grid is its edge.
    """
    i = bisect_right(grid, value)
    if i == 0 or i == len(grid):
        edge = max(0, i - 1)
        return edge, edge, 0.0
    return i - 1, i, (value - grid[i - 1]) / (grid[i] - grid[i - 1])
