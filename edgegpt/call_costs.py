"""What calls of the engine cost: the nodes of a call, and what lies around them.

A request for a first token reads its prompt in pieces of PREFILL_CHUNK, each a call that is bound anew;
every further token is one step. `Calls` was fitted to whole small models, whose greedy choice of a
token is taken off, so that it can be put on again for any vocabulary.
"""

from edgegpt.config import ModelConfig
from edgegpt.op_costs import OpCosts
from edgegpt.precision import Recipe
from edgegpt.target import Call, Calls
from edgegpt.tuning import PREFILL_CHUNK

_WARM_UP_TOKENS = 4  # of each of TextGenerator.warm_up's two answers


class CallCosts:
    """Microseconds of requests, from one target's tables."""

    def __init__(self, ops: OpCosts, calls: Calls) -> None:
        self._ops, self._calls = ops, calls

    def first_token_us(self, config: ModelConfig, bits: Recipe, prompt_tokens: int) -> float:
        """From prompt ids to the first new id, the cache empty before."""
        pieces = range(0, prompt_tokens, PREFILL_CHUNK)
        us = sum(self._chunk(config, bits, min(PREFILL_CHUNK, prompt_tokens - i), i) for i in pieces)
        return us + self._greedy(config)

    def token_us(self, config: ModelConfig, bits: Recipe, cached: int) -> float:
        """One further token, `cached` tokens before the one that is read."""
        ops = self._ops.call_us(config, bits, 1, cached)
        return _call(self._calls.step, config, ops) + self._greedy(config)

    def warm_up_us(self, config: ModelConfig, bits: Recipe) -> float:
        """The calls of TextGenerator.warm_up: the last position, a short and a longer prompt."""
        last, longer = config.block_size - 1, max(1, min(PREFILL_CHUNK, config.block_size - 4))
        us = self._chunk(config, bits, 1, last)
        for n_tokens in (1, longer):
            us += self.first_token_us(config, bits, n_tokens)
            us += (_WARM_UP_TOKENS - 1) * self.token_us(config, bits, n_tokens)
        return us

    def _chunk(self, config: ModelConfig, bits: Recipe, tokens: int, cached: int) -> float:
        return _call(self._calls.chunk, config, self._ops.call_us(config, bits, tokens, cached))

    def _greedy(self, config: ModelConfig) -> float:
        line = self._calls.greedy
        return line.node_us + line.us_per_1000_values * config.vocab_size / 1e3


def _call(call: Call, config: ModelConfig, ops_us: float) -> float:
    return call.call_us + call.us_per_layer * config.n_layer + call.node_factor * ops_us
