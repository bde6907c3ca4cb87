"""A model that answers from a script on a clock that only tests move, and a backend that tests look into."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from conftest import TINY

from edgegpt.runtime import Backend, BoundCall, CallArrays, Clock, Engine, SamplingParams, TextGenerator
from helpers.tiny_files import tokenizer


def greedy(**changes: Any) -> SamplingParams:
    """Return greedy params with some changed."""
    return SamplingParams(**{"temperature": 0.0, **changes})


GREEDY = greedy()


class ManualClock:
    """The `clock` of an engine, in seconds that pass only when a test adds them."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Script:
    """A backend that answers `ids` after a prompt of n tokens, whatever the prompt.

    Attributes:
        clock: of the engine, unless another one is given.
        seconds: that a call which reads so many tokens takes.
        steps: number of tokens that each call has read.
        before_step: called with that number before each call.
        bound: number of caches that were bound for decoding.
        generator: over this backend.
    """

    prefills_apart = False

    def __init__(
        self, prompt: str, answer: str, *, block_size: int = TINY.block_size, clock: Clock | None = None
    ) -> None:
        tokens = tokenizer()
        self.n_prompt = len(tokens.encode_prompt(prompt))
        self.ids = [*tokens.encode(answer), tokens.eos_id]
        self.clock = ManualClock()
        self.seconds: Callable[[int], float] = lambda n_tokens: 0.0
        self.steps: list[int] = []
        self.before_step: Callable[[int], None] = lambda n_tokens: None
        self.bound = 0
        config = replace(TINY, block_size=block_size)
        self.engine = Engine(None, config, n_valid=270, backend=self, clock=clock or self.clock)
        self.generator = TextGenerator(self.engine, tokens, GREEDY)

    def bind_decode(self, arrays: CallArrays) -> BoundCall:
        self.bound += 1
        return self.bind_prefill(arrays)

    def bind_prefill(self, arrays: CallArrays) -> BoundCall:
        input_ids, position_ids, logits, _ = arrays

        def call() -> None:
            self.before_step(input_ids.size)
            self.clock.now += self.seconds(input_ids.size)
            self.steps.append(input_ids.size)
            logits[:] = 0
            index = int(position_ids[0, -1]) - self.n_prompt + 1
            logits[0, -1, self.ids[min(max(index, 0), len(self.ids) - 1)]] = 1

        return call

    def fail_at(self, step: int, error: BaseException) -> None:
        """Raise `error` once, before the step of this number, counted from 0 and from `steps`."""

        def before_step(n_tokens: int) -> None:
            if len(self.steps) == step:
                self.before_step = lambda n_tokens: None
                raise error

        self.before_step = before_step


@dataclass(frozen=True)
class Call:
    """A call of the model that `Observed` intercepts; `run` runs it."""

    input_ids: Any  # (1, T)
    logits: Any  # (1, R, vocab_size)
    run: BoundCall


class Observed:
    """Another backend, with `around(call)` in place of each call."""

    def __init__(self, backend: Backend, around: Callable[[Call], None]) -> None:
        self._backend = backend
        self._around = around
        self.prefills_apart = backend.prefills_apart

    def bind_prefill(self, arrays: CallArrays) -> BoundCall:
        run = self._backend.bind_prefill(arrays)
        return lambda: self._around(Call(arrays.input_ids, arrays.logits, run))

    def bind_decode(self, arrays: CallArrays) -> BoundCall:
        run = self._backend.bind_decode(arrays)
        return lambda: self._around(Call(arrays.input_ids, arrays.logits, run))


def observed(engine: Engine, around: Callable[[Call], None]) -> Engine:
    """Return an engine of the same model whose calls go through `around`."""
    backend = Observed(engine.backend, around)
    return Engine(None, engine.config, n_valid=engine.n_valid, backend=backend)
