"""What one call of the graph costs in its nodes, from a target's tables.

    product     node + inputs + outputs + weights, for its bits, block and tokens; and for each MB of its
                weights what it costs more to fetch them from where they lie: the working set of the
                call, all weights and the cache that it reads, says how far away that is
    attention   node + n_embd * tokens + (n_embd and n_head) * pairs of a new token and one it looks at; and
                the same for each MB of its cache
    the rest    node + values made

A roofline (Williams et al. 2009) whose two sides are added and not overlapped: on a small core the
fetch is hardly hidden, and where it is, the tables are fitted to that. Numbers of tokens between two
that were measured lie on a straight line between them. All terms are at least 0, so more layers or more
tokens in the cache never make a call cheaper.

Shapes: T new tokens, of which the last `rows` go on behind the last attention.

What calls of the engine cost: the nodes of a call, and what lies around them.

A request for a first token reads its prompt in pieces of PREFILL_CHUNK, each a call that is bound anew;
every further token is one step. `Calls` was fitted to whole small models, whose greedy choice of a
token is taken off, so that it can be put on again for any vocabulary.

Between what was measured.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from edgegpt.accounting import kv_cache_bytes
from edgegpt.config import ModelConfig
from edgegpt.prediction.target import Attention, CacheStreaming, Call, Calls, Line, Nodes, Product, Streaming
from edgegpt.quantization import BITS, FLOAT, Recipe, block_size, matrix_bytes, weight_bytes_per_token
from edgegpt.runtime import PREFILL_CHUNK

_MB: Final = 1e6
_SMALL_NODES: Final = 6  # the lengths of the cache, and the rows that are wanted
_MATRICES: Final = ("attn.qkv", "attn.proj", "mlp.fc", "mlp.proj")

_Row = TypeVar("_Row", Product, Attention)
_ByTokens = tuple[list[int], list[_Row]]  # numbers of tokens, in order, and their rows
_LayerBits = tuple[int, ...]  # of _MATRICES


@dataclass(frozen=True)
class ModelWork:
    """What a call of one model has to do, found once for many calls.

    Attributes:
        config: the model.
        layers: how many layers but the last have these bits, of qkv, proj, fc and proj.
        last: bits of the last layer, of which only one row goes on behind the attention.
        tables: bits of the token and the position embedding.
        head: bits of the head, which a tied one shares with the token embedding.
        read_bytes: of weights in a call.
    """

    config: ModelConfig
    layers: Mapping[_LayerBits, int]
    last: _LayerBits
    tables: tuple[int, int]
    head: int
    read_bytes: int

    @classmethod
    def of(cls, config: ModelConfig, bits: Recipe) -> "ModelWork":
        """Of a model whose matrices have these bits."""
        every = [_layer_bits(bits, i) for i in range(config.n_layer)]
        return cls(
            config=config,
            layers=Counter(every[:-1]),
            last=every[-1],
            tables=(bits["wte.weight"], bits["wpe.weight"]),
            head=bits["wte.weight" if config.tie_embeddings else "head.weight"],
            read_bytes=weight_bytes_per_token(config, bits),
        )


class OpCosts:
    """The tables of one target, sorted once for many predictions."""

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
        self._further = {bits: Curve.of_streaming(streaming, bits) for bits in BITS}
        self._cache_further = Curve.of_cache(cache_streaming)
        self._attention = _by_tokens(attention)
        self._nodes = nodes

    def call_us(self, work: ModelWork, tokens: int, cached: int) -> tuple[float, float]:
        """Microseconds of one call that wants one row of logits.

        Args:
            work: of the model.
            tokens: new ones.
            cached: those before them.

        Returns:
            what its nodes take with everything at hand; what fetching weights and the cache adds.
        """
        config = work.config
        rows = [*((bits, n, tokens) for bits, n in work.layers.items()), (work.last, 1, 1)]
        near = sum(n * self._layer(config, bits, tokens, r, cached + tokens) for bits, n, r in rows)
        near += _SMALL_NODES * self._nodes.add.node_us + _line(self._nodes.norm, config.n_embd * tokens)
        near += sum(self._lookup(bits, config.n_embd * tokens) for bits in work.tables)
        near += self.product_us(work.head, config.vocab_size, config.n_embd, 1)
        return near, self._fetch(work, rows, tokens, kv_cache_bytes(config, cached + tokens) / _MB)

    def _layer(self, config: ModelConfig, bits: _LayerBits, tokens: int, rows: int, total: int) -> float:
        """One block with everything at hand; `rows` go on behind its attention."""
        d = config.n_embd
        qkv, proj, fc, mlp_proj = bits
        us = self.product_us(qkv, 3 * d, d, tokens)
        # Few bits add the bias within the product.
        if config.qkv_bias and qkv == FLOAT:
            us += _line(self._nodes.add, 3 * d * tokens)
        us += sum(_line(self._nodes.add, d * rows) for one in (proj, mlp_proj) if one == FLOAT)
        us += self._attend(config, tokens, total)
        us += self.product_us(proj, d, d, rows)
        us += self.product_us(fc, 4 * d, d, rows)
        us += self.product_us(mlp_proj, d, 4 * d, rows)
        return us + _line(self._nodes.gelu, 4 * d * rows) + 2 * _line(self._nodes.norm, d * rows)

    def _fetch(
        self, work: ModelWork, layers: Iterable[tuple[_LayerBits, int, int]], tokens: int, cache_mb: float
    ) -> float:
        """What bringing the weights and the cache of a call costs, by how much it reads in all."""
        d, working_set = work.config.n_embd, work.read_bytes / _MB + cache_mb
        shapes = ((3 * d, d), (d, d), (4 * d, d), (d, 4 * d))
        us = cache_mb * self._cache_further.at(tokens, working_set)
        for bits, n, rows in layers:
            for (outputs, inputs), few, t in zip(shapes, bits, (tokens, rows, rows, rows), strict=True):
                us += n * self._fetch_matrix(few, outputs, inputs, t, working_set)
        return us + self._fetch_matrix(work.head, work.config.vocab_size, d, 1, working_set)

    def _fetch_matrix(self, bits: int, outputs: int, inputs: int, tokens: int, working_set: float) -> float:
        return matrix_bytes(outputs, inputs, bits) / _MB * self._further[bits].at(tokens, working_set)

    def product_us(self, bits: int, outputs: int, inputs: int, tokens: int) -> float:
        """Microseconds of `tokens` rows (inputs,) times a matrix (outputs, inputs) that is at hand."""
        costs, (rows, share) = [], _around(self._table(bits, inputs), tokens)
        for row in rows:
            costs.append(
                row.node_us
                + row.us_per_1000_inputs * inputs / 1e3
                + row.us_per_1000_outputs * outputs / 1e3
                + row.us_per_million_weights * inputs * outputs / 1e6
            )
        return costs[0] + share * (costs[1] - costs[0])

    def _table(self, bits: int, inputs: int) -> _ByTokens[Product]:
        """Of its block, or of the next larger one that was measured, or of the largest."""
        block = 0 if bits == FLOAT else block_size(inputs, bits)
        measured = self._products[bits]
        return next((table for size, table in measured if size >= block), measured[-1][1])

    def _attend(self, config: ModelConfig, tokens: int, total: int) -> float:
        d, pairs = config.n_embd, tokens * total
        costs, (rows, share) = [], _around(self._attention, tokens)
        for row in rows:
            costs.append(
                row.node_us
                + row.us_per_1000_values * d * tokens / 1e3
                + row.us_per_million_products * d * pairs / 1e6
                + row.us_per_1000_scores * config.n_head * pairs / 1e3
            )
        return costs[0] + share * (costs[1] - costs[0])

    def _lookup(self, bits: int, values: int) -> float:
        return _line(self._nodes.lookup_32_bits if bits == FLOAT else self._nodes.lookup_8_bits, values)


def _by_tokens(rows: Iterable[_Row]) -> _ByTokens[_Row]:
    ordered = sorted(rows, key=lambda row: row.tokens)
    return [row.tokens for row in ordered], ordered


def _around(table: _ByTokens[_Row], tokens: int) -> tuple[tuple[_Row, _Row], float]:
    """The rows on both sides, and how far `tokens` is from the first to the second, 0 to 1."""
    grid, rows = table
    i, j, share = between(grid, tokens)
    return (rows[i], rows[j]), share


def _line(line: Line, values: int) -> float:
    return line.node_us + line.us_per_1000_values * values / 1e3


def _layer_bits(bits: Recipe, layer: int) -> _LayerBits:
    return tuple(bits[f"blocks.{layer}.{name}.weight"] for name in _MATRICES)


_WARM_UP_TOKENS = 4  # of each of TextGenerator.warm_up's two answers


class CallCosts:
    """Microseconds of requests, from one target's tables."""

    def __init__(self, ops: OpCosts, calls: Calls) -> None:
        self._ops, self._calls = ops, calls

    def first_token_us(self, work: ModelWork, prompt_tokens: int) -> float:
        """From prompt ids to the first new id, the cache empty before."""
        pieces = range(0, prompt_tokens, PREFILL_CHUNK)
        us = sum(self._chunk(work, min(PREFILL_CHUNK, prompt_tokens - i), i) for i in pieces)
        return us + self._greedy(work)

    def token_us(self, work: ModelWork, cached: int) -> float:
        """One further token, `cached` tokens before the one that is read."""
        ops = self._ops.call_us(work, 1, cached)
        return _call(self._calls.step, work, ops) + self._greedy(work)

    def warm_up_us(self, work: ModelWork) -> float:
        """The calls of TextGenerator.warm_up: the last position, a short and a longer prompt."""
        context = work.config.block_size
        last, longer = context - 1, max(1, min(PREFILL_CHUNK, context - 4))
        us = self._chunk(work, 1, last)
        for n_tokens in (1, longer):
            us += self.first_token_us(work, n_tokens)
            us += (_WARM_UP_TOKENS - 1) * self.token_us(work, n_tokens)
        return us

    def _chunk(self, work: ModelWork, tokens: int, cached: int) -> float:
        return _call(self._calls.chunk, work, self._ops.call_us(work, tokens, cached))

    def _greedy(self, work: ModelWork) -> float:
        line = self._calls.greedy
        return line.node_us + line.us_per_1000_values * work.config.vocab_size / 1e3


def _call(call: Call, work: ModelWork, ops_us: tuple[float, float]) -> float:
    near, fetch = ops_us
    return call.call_us + call.us_per_layer * work.config.n_layer + call.node_factor * near + fetch


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
