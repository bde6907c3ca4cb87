"""What one call of the graph costs in its nodes, from a target's tables.

    product     node + inputs + outputs + weights, for its bits, block and tokens; and for each MB of its
                weights what it costs more to fetch them from where they lie: the working set of the
                call, all weights and the cache that it reads, says how far away that is
    attention   node + n_embd * tokens + (n_embd and n_head) * pairs of a new token and one it looks at
    the rest    node + values made

A roofline (Williams et al. 2009) whose two sides are added and not overlapped: on a small core the
fetch is hardly hidden, and where it is, the tables are fitted to that. Numbers of tokens between two
that were measured lie on a straight line between them. All terms are at least 0, so more layers or more
tokens in the cache never make a call cheaper.

Shapes: T new tokens, of which the last `rows` go on behind the last attention.
"""

from collections.abc import Sequence
from typing import Final

from edgegpt.accounting import kv_cache_bytes
from edgegpt.config import ModelConfig
from edgegpt.interpolation import Curve, between
from edgegpt.measure.traffic import weight_bytes_per_token
from edgegpt.packing import FLOAT, block_size, matrix_bytes
from edgegpt.precision import Recipe
from edgegpt.target import Attention, Line, Nodes, Product, Streaming

_MB: Final = 1e6
_SMALL_NODES: Final = 6  # the lengths of the cache, and the rows that are wanted


class OpCosts:
    """The tables of one target, sorted once for many predictions."""

    def __init__(
        self,
        products: Sequence[Product],
        streaming: Sequence[Streaming],
        attention: Sequence[Attention],
        nodes: Nodes,
    ) -> None:
        self._products: dict[tuple[int, int], dict[int, Product]] = {}
        for row in products:
            self._products.setdefault((row.bits, row.block), {})[row.tokens] = row
        self._further = {bits: Curve.of_streaming(streaming, bits) for bits in (4, 8, FLOAT)}
        self._attention = {row.tokens: row for row in attention}
        self._nodes = nodes

    def call_us(
        self, config: ModelConfig, bits: Recipe, tokens: int, cached: int, *, gathered: bool = True
    ) -> float:
        """Microseconds in the nodes of one call with one wanted row.

        Args:
            config: the model.
            bits: of every matrix.
            tokens: new ones.
            cached: those before them.
            gathered: whether weights come from where the call's working set lies; else from near.
        """
        total = cached + tokens
        read = weight_bytes_per_token(config, bits) + kv_cache_bytes(config, total)
        working_set = read / _MB if gathered else 0.0
        d, last = config.n_embd, config.n_layer - 1
        us = _SMALL_NODES * self._nodes.add.node_us
        us += self._lookup(bits["wte.weight"], d * tokens) + self._lookup(bits["wpe.weight"], d * tokens)
        us += _line(self._nodes.norm, d * tokens)
        for i in range(config.n_layer):
            name = f"blocks.{i}"
            us += self._product(bits[f"{name}.attn.qkv.weight"], 3 * d, d, tokens, working_set)
            if config.qkv_bias:
                us += _line(self._nodes.add, 3 * d * tokens)
            us += self._attend(config, tokens, total, working_set)
            rows = 1 if i == last else tokens
            us += self._product(bits[f"{name}.attn.proj.weight"], d, d, rows, working_set)
            us += self._product(bits[f"{name}.mlp.fc.weight"], 4 * d, d, rows, working_set)
            us += self._product(bits[f"{name}.mlp.proj.weight"], d, 4 * d, rows, working_set)
            us += _line(self._nodes.gelu, 4 * d * rows) + 2 * _line(self._nodes.norm, d * rows)
        head = "wte.weight" if config.tie_embeddings else "head.weight"
        return us + self._product(bits[head], config.vocab_size, d, 1, working_set)

    def _product(self, bits: int, outputs: int, inputs: int, tokens: int, working_set: float) -> float:
        table = self._table(bits, inputs)
        size = matrix_bytes(outputs, inputs, bits) / _MB
        low, high, share = between(sorted(table), tokens)
        costs = []
        for n in (low, high):
            row = table[n]
            costs.append(
                row.node_us
                + row.us_per_1000_inputs * inputs / 1e3
                + row.us_per_1000_outputs * outputs / 1e3
                + row.us_per_million_weights * inputs * outputs / 1e6
            )
        near = costs[0] + share * (costs[1] - costs[0])
        return near + size * self._further[bits].at(tokens, working_set)

    def _table(self, bits: int, inputs: int) -> dict[int, Product]:
        """Of its block, or of the next larger one that was measured, or of the largest."""
        block = 0 if bits == FLOAT else block_size(inputs, bits)
        blocks = sorted(b for few, b in self._products if few == bits)
        return self._products[bits, next((b for b in blocks if b >= block), blocks[-1])]

    def _attend(self, config: ModelConfig, tokens: int, total: int, working_set: float) -> float:
        d, pairs = config.n_embd, tokens * total
        low, high, share = between(sorted(self._attention), tokens)
        costs = []
        for n in (low, high):
            row = self._attention[n]
            costs.append(
                row.node_us
                + row.us_per_1000_values * d * tokens / 1e3
                + row.us_per_million_products * d * pairs / 1e6
                + row.us_per_1000_scores * config.n_head * pairs / 1e3
            )
        cache = kv_cache_bytes(config, total) / config.n_layer / _MB
        near = costs[0] + share * (costs[1] - costs[0])
        return near + cache * self._further[FLOAT].at(tokens, working_set)

    def _lookup(self, bits: int, values: int) -> float:
        return _line(self._nodes.lookup_32_bits if bits == FLOAT else self._nodes.lookup_8_bits, values)


def _line(line: Line, values: int) -> float:
    return line.node_us + line.us_per_1000_values * values / 1e3
