"""What calls of the engine cost: the nodes of a call, and what lies around them.

A request for a first token reads its prompt in pieces of PREFILL_CHUNK, each a call that is bound anew;
every further token is one step. `Calls` was fitted to whole small models, whose greedy choice of a
token is taken off, so that it can be put on again for any vocabulary.
"""

from edgegpt.prediction.cost_model import OpCosts, Work
from edgegpt.prediction.target import Call, Calls
from edgegpt.runtime.tuning import PREFILL_CHUNK

_WARM_UP_TOKENS = 4  # of each of TextGenerator.warm_up's two answers


class CallCosts:
    """Microseconds of requests, from one target's tables."""

    def __init__(self, ops: OpCosts, calls: Calls) -> None:
        self._ops, self._calls = ops, calls

    def first_token_us(self, work: Work, prompt_tokens: int) -> float:
        """From prompt ids to the first new id, the cache empty before."""
        pieces = range(0, prompt_tokens, PREFILL_CHUNK)
        us = sum(self._chunk(work, min(PREFILL_CHUNK, prompt_tokens - i), i) for i in pieces)
        return us + self._greedy(work)

    def token_us(self, work: Work, cached: int) -> float:
        """One further token, `cached` tokens before the one that is read."""
        ops = self._ops.call_us(work, 1, cached)
        return _call(self._calls.step, work, ops) + self._greedy(work)

    def warm_up_us(self, work: Work) -> float:
        """The calls of TextGenerator.warm_up: the last position, a short and a longer prompt."""
        context = work.config.block_size
        last, longer = context - 1, max(1, min(PREFILL_CHUNK, context - 4))
        us = self._chunk(work, 1, last)
        for n_tokens in (1, longer):
            us += self.first_token_us(work, n_tokens)
            us += (_WARM_UP_TOKENS - 1) * self.token_us(work, n_tokens)
        return us

    def _chunk(self, work: Work, tokens: int, cached: int) -> float:
        return _call(self._calls.chunk, work, self._ops.call_us(work, tokens, cached))

    def _greedy(self, work: Work) -> float:
        line = self._calls.greedy
        return line.node_us + line.us_per_1000_values * work.config.vocab_size / 1e3


def _call(call: Call, work: Work, ops_us: tuple[float, float]) -> float:
    near, fetch = ops_us
    return call.call_us + call.us_per_layer * work.config.n_layer + call.node_factor * near + fetch
