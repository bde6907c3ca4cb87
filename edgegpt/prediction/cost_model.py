"""Predict the time of graph calls and of requests from a board profile's tables.

A call is the sum of its nodes:

    product     node + inputs + outputs + weights, by bits, block and tokens
    attention   node + n_embd * tokens + (n_embd and n_head) * pairs of a new token and one it attends to
    others      node + values written

and, for each MB of weights and of cache, what fetching it costs more than from a near cache; that depends
on the call's working set (all weights and the part of the cache that it reads).

This is a roofline (Williams et al. 2009) whose two sides are added and not overlapped: a small core hides
little of the fetch, and the tables are fitted to what remains. Between measured numbers of tokens costs are
interpolated linearly. All terms are at least 0, so more layers or more tokens in the cache never make a
call cheaper.

A request reads its prompt in chunks of PREFILL_CHUNK tokens, each a call that is bound anew; a decode step
is one call. The profile's `calls` were fitted to whole small models without their greedy choice of a token,
which is added for any size of vocabulary.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from edgegpt.accounting import kv_cache_bytes
from edgegpt.config import ModelConfig
from edgegpt.prediction.target import Attention, CacheStreaming, Call, Calls, Line, Nodes, Product, Streaming
from edgegpt.quantization import BITS, FLOAT, Recipe, block_size, matrix_bytes, weight_bytes_per_token
from edgegpt.runtime import PREFILL_CHUNK

_MB: Final = 1e6
_SMALL_NODES: Final = 6  # the lengths of the cache, and the rows whose logits are wanted
_MATRICES: Final = ("attn.qkv", "attn.proj", "mlp.fc", "mlp.proj")
_WARM_UP_TOKENS: Final = 4  # new tokens in each of TextGenerator.warm_up's two generations

_Row = TypeVar("_Row", Product, Attention)
_ByTokens = tuple[list[int], list[_Row]]  # numbers of tokens in order, and their rows
_LayerBits = tuple[int, ...]  # bits of each of _MATRICES


@dataclass(frozen=True)
class ModelWork:
    """Computation and reads of one call of a model, derived once for many calls.

    Attributes:
        config: the model.
        layers: number of layers but the last, by the bits of their qkv, proj, fc and proj.
        last: bits of the last layer, which computes one row after its attention.
        tables: bits of the token and the position embedding.
        head: bits of the head, which a tied one shares with the token embedding.
        read_bytes: bytes of weights that a call reads.
    """

    config: ModelConfig
    layers: Mapping[_LayerBits, int]
    last: _LayerBits
    tables: tuple[int, int]
    head: int
    read_bytes: int

    @classmethod
    def of(cls, config: ModelConfig, bits: Recipe) -> "ModelWork":
        """Return the work of a model whose matrices have these bits."""
        every = [
            tuple(bits[f"blocks.{i}.{name}.weight"] for name in _MATRICES) for i in range(config.n_layer)
        ]
        return cls(
            config=config,
            layers=Counter(every[:-1]),
            last=every[-1],
            tables=(bits["wte.weight"], bits["wpe.weight"]),
            head=bits["wte.weight" if config.tie_embeddings else "head.weight"],
            read_bytes=weight_bytes_per_token(config, bits),
        )


class CallCosts:
    """Microseconds of requests, from the tables of one profile."""

    def __init__(self, ops: "OpCosts", calls: Calls) -> None:
        self._ops, self._calls = ops, calls

    def first_token_us(self, work: ModelWork, prompt_tokens: int) -> float:
        """Return the time from prompt ids to the first new id, the cache empty before."""
        starts = range(0, prompt_tokens, PREFILL_CHUNK)
        us = sum(self._chunk_us(work, min(PREFILL_CHUNK, prompt_tokens - i), i) for i in starts)
        return us + self._greedy_us(work)

    def token_us(self, work: ModelWork, cached: int) -> float:
        """Return the time of a decode step with `cached` tokens before the one that is read."""
        return _call_us(self._calls.step, work, self._ops.call_us(work, 1, cached)) + self._greedy_us(work)

    def warm_up_us(self, work: ModelWork) -> float:
        """Return the time of TextGenerator.warm_up: the last position, a short and a longer prompt."""
        context = work.config.block_size
        us = self._chunk_us(work, 1, context - 1)
        for n_tokens in (1, max(1, min(PREFILL_CHUNK, context - 4))):
            us += self.first_token_us(work, n_tokens)
            us += (_WARM_UP_TOKENS - 1) * self.token_us(work, n_tokens)
        return us

    def _chunk_us(self, work: ModelWork, tokens: int, cached: int) -> float:
        return _call_us(self._calls.chunk, work, self._ops.call_us(work, tokens, cached))

    def _greedy_us(self, work: ModelWork) -> float:
        return _line_us(self._calls.greedy, work.config.vocab_size)


class OpCosts:
    """Microseconds of a call's nodes, from the tables of one profile, sorted once for many predictions."""

    def __init__(
        self,
        products: Sequence[Product],
        streaming: Sequence[Streaming],
        cache_streaming: Sequence[CacheStreaming],
        attention: Sequence[Attention],
        nodes: Nodes,
    ) -> None:
        self._products = {
            bits: [
                (block, _by_tokens(row for row in products if (row.bits, row.block) == (bits, block)))
                for block in sorted({row.block for row in products if row.bits == bits})
            ]
            for bits in BITS
        }
        self._weight_fetch = {bits: Curve.of_streaming(streaming, bits) for bits in BITS}
        self._cache_fetch = Curve.of_cache(cache_streaming)
        self._attention = _by_tokens(attention)
        self._nodes = nodes

    def call_us(self, work: ModelWork, tokens: int, cached: int) -> tuple[float, float]:
        """Return the microseconds of one call that computes one row of logits.

        Args:
            work: computation and reads of the model.
            tokens: number of new tokens.
            cached: number of tokens before them.

        Returns:
            The time of its nodes with all data in a near cache; the time that fetching adds.
        """
        config = work.config
        # Bits of a layer, how many layers have them, rows that go on after their attention.
        layers = [*((bits, n, tokens) for bits, n in work.layers.items()), (work.last, 1, 1)]
        us = sum(n * self._layer_us(config, bits, tokens, rows, cached + tokens) for bits, n, rows in layers)
        us += _SMALL_NODES * self._nodes.add.node_us + _line_us(self._nodes.norm, config.n_embd * tokens)
        us += sum(self._lookup_us(bits, config.n_embd * tokens) for bits in work.tables)
        us += self.product_us(work.head, config.vocab_size, config.n_embd, 1)
        return us, self._fetch_us(work, layers, tokens, kv_cache_bytes(config, cached + tokens) / _MB)

    def product_us(self, bits: int, outputs: int, inputs: int, tokens: int) -> float:
        """Return the microseconds of `tokens` rows times a matrix (outputs, inputs) in a near cache."""
        return _interpolated(
            self._product_table(bits, inputs),
            tokens,
            lambda row: (
                row.node_us
                + row.us_per_1000_inputs * inputs / 1e3
                + row.us_per_1000_outputs * outputs / 1e3
                + row.us_per_million_weights * inputs * outputs / 1e6
            ),
        )

    def _product_table(self, bits: int, inputs: int) -> _ByTokens[Product]:
        """Return the rows of its block, or of the next larger one that was measured, or of the largest."""
        block = 0 if bits == FLOAT else block_size(inputs, bits)
        measured = self._products[bits]
        return next((table for size, table in measured if size >= block), measured[-1][1])

    def _layer_us(self, config: ModelConfig, bits: _LayerBits, tokens: int, rows: int, total: int) -> float:
        d = config.n_embd
        qkv, proj, fc, mlp_proj = bits
        us = self.product_us(qkv, 3 * d, d, tokens)
        # A quantised product adds its bias itself.
        if config.qkv_bias and qkv == FLOAT:
            us += _line_us(self._nodes.add, 3 * d * tokens)
        us += sum(_line_us(self._nodes.add, d * rows) for one in (proj, mlp_proj) if one == FLOAT)
        us += self._attention_us(config, tokens, total)
        us += self.product_us(proj, d, d, rows)
        us += self.product_us(fc, 4 * d, d, rows)
        us += self.product_us(mlp_proj, d, 4 * d, rows)
        return us + _line_us(self._nodes.gelu, 4 * d * rows) + 2 * _line_us(self._nodes.norm, d * rows)

    def _attention_us(self, config: ModelConfig, tokens: int, total: int) -> float:
        d, pairs = config.n_embd, tokens * total
        return _interpolated(
            self._attention,
            tokens,
            lambda row: (
                row.node_us
                + row.us_per_1000_values * d * tokens / 1e3
                + row.us_per_million_products * d * pairs / 1e6
                + row.us_per_1000_scores * config.n_head * pairs / 1e3
            ),
        )

    def _lookup_us(self, bits: int, values: int) -> float:
        return _line_us(self._nodes.lookup_32_bits if bits == FLOAT else self._nodes.lookup_8_bits, values)

    def _fetch_us(
        self, work: ModelWork, layers: Iterable[tuple[_LayerBits, int, int]], tokens: int, cache_mb: float
    ) -> float:
        """Return what fetching weights and cache adds, by the working set of the call."""
        d, working_set = work.config.n_embd, work.read_bytes / _MB + cache_mb
        shapes = ((3 * d, d), (d, d), (4 * d, d), (d, 4 * d))

        def matrix_us(bits: int, outputs: int, inputs: int, rows: int) -> float:
            us_per_mb = self._weight_fetch[bits].at(rows, working_set)
            return matrix_bytes(outputs, inputs, bits) / _MB * us_per_mb

        us = cache_mb * self._cache_fetch.at(tokens, working_set)
        for layer_bits, n, rows in layers:
            for shape, bits, t in zip(shapes, layer_bits, (tokens, rows, rows, rows), strict=True):
                us += n * matrix_us(bits, *shape, t)
        return us + matrix_us(work.head, work.config.vocab_size, d, 1)


class Curve:
    """Fetch costs in microseconds per MB, by tokens and working set.

    Linear between numbers of tokens and over the logarithm of the working set; outside the table its edges
    hold: a larger working set comes from memory, whose cost was measured, and more tokens hide it as well
    as the largest measured number.
    """

    def __init__(self, table: dict[int, list[tuple[float, float]]]) -> None:
        self._tokens = sorted(table)
        rows = [sorted(table[n]) for n in self._tokens]
        self._sizes = [[size for size, _ in points] for points in rows]
        self._costs = [[cost for _, cost in points] for points in rows]

    @classmethod
    def of_streaming(cls, rows: Sequence[Streaming], bits: int) -> "Curve":
        """Return the curve of weights of these bits."""
        table: dict[int, list[tuple[float, float]]] = {}
        for row in rows:
            if row.bits == bits:
                table.setdefault(row.tokens, []).append((row.working_set_mb, row.us_per_mb))
        return cls(table)

    @classmethod
    def of_cache(cls, rows: Sequence[CacheStreaming]) -> "Curve":
        """Return the curve of keys and values, the same for any number of tokens."""
        return cls({1: [(row.working_set_mb, row.us_per_mb) for row in rows]})

    def at(self, tokens: int, working_set_mb: float) -> float:
        """Return the microseconds that a MB costs more than from a near cache."""
        low, high, share = neighbours(self._tokens, tokens)
        cost = self._row_at(low, working_set_mb)
        return cost + share * (self._row_at(high, working_set_mb) - cost) if share else cost

    def _row_at(self, row: int, working_set_mb: float) -> float:
        sizes, costs = self._sizes[row], self._costs[row]
        i = bisect_right(sizes, working_set_mb)
        if i == 0 or i == len(sizes):
            return costs[0] if i == 0 else costs[-1]
        share = math.log(working_set_mb / sizes[i - 1]) / math.log(sizes[i] / sizes[i - 1])
        return costs[i - 1] + share * (costs[i] - costs[i - 1])


def neighbours(grid: Sequence[int], value: int) -> tuple[int, int, float]:
    """Return the indices around a value in a sorted grid, and its distance from the lower, 0 to 1.

    A value outside the grid is taken as its edge.
    """
    i = bisect_right(grid, value)
    if i == 0 or i == len(grid):
        edge = max(0, i - 1)
        return edge, edge, 0.0
    return i - 1, i, (value - grid[i - 1]) / (grid[i] - grid[i - 1])


def _interpolated(table: _ByTokens[_Row], tokens: int, us: Callable[[_Row], float]) -> float:
    grid, rows = table
    low, high, share = neighbours(grid, tokens)
    cost = us(rows[low])
    return cost + share * (us(rows[high]) - cost) if share else cost


def _by_tokens(rows: Iterable[_Row]) -> _ByTokens[_Row]:
    ordered = sorted(rows, key=lambda row: row.tokens)
    return [row.tokens for row in ordered], ordered


def _line_us(line: Line, values: int) -> float:
    return line.node_us + line.us_per_1000_values * values / 1e3


def _call_us(call: Call, work: ModelWork, ops_us: tuple[float, float]) -> float:
    nodes, fetch = ops_us
    return call.call_us + call.us_per_layer * work.config.n_layer + call.node_factor * nodes + fetch
