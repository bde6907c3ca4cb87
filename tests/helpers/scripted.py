"""A model that answers from a script, a clock that only tests move, and a backend that tests look into."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from conftest import TINY

from edgegpt.runtime.engine import Clock, Engine
from edgegpt.runtime.generator import TextGenerator
from edgegpt.runtime.ort_backend import Backend, BoundCall
from edgegpt.runtime.sampling import Logits, SamplingParams
from helpers.tiny_files import tokenizer

GREEDY = SamplingParams(temperature=0.0)


def greedy(**changes: Any) -> SamplingParams:
    """Return greedy params with some changed."""
    return SamplingParams(**{"temperature": 0.0, **changes})


class ManualClock:
    """The `clock` of an engine, in seconds that pass only when a test adds them."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Script:
    """A backend that answers `ids` after a prompt of n tokens, whatever the prompt.

    Attributes:
        steps: number of tokens that each call has read.
        before_step: called with that number before each call.
        after_step: called with the logits after it.
        bound: number of caches that were bound for decoding.
        generator: over this backend.
    """

    prefills_apart = False

    def __init__(
        self,
        prompt: str,
        answer: str | list[int],
        *,
        block_size: int = TINY.block_size,
        clock: Clock = perf_counter,
    ) -> None:
        tokens = tokenizer()
        ids = tokens.encode(answer) if isinstance(answer, str) else answer
        self.n_prompt = len(tokens.encode_prompt(prompt))
        self.ids = [*ids, tokens.eos_id]
        self.steps: list[int] = []
        self.before_step: Callable[[int], None] = lambda n_tokens: None
        self.after_step: Callable[[Logits], None] = lambda logits: None
        self.bound = 0
        config = replace(TINY, block_size=block_size)
        self.engine = Engine(None, config, n_valid=270, backend=self, clock=clock)
        self.generator = TextGenerator(self.engine, tokens, GREEDY)

    def bind_decode(self, input_ids: Any, position_ids: Any, logits: Any, kv_arrays: Any) -> BoundCall:
        self.bound += 1
        return self.bind_prefill(input_ids, position_ids, logits, kv_arrays)

    def bind_prefill(self, input_ids: Any, position_ids: Any, logits: Any, kv_arrays: Any) -> BoundCall:
        def call() -> None:
            self.before_step(input_ids.size)
            self.steps.append(input_ids.size)
            logits[:] = 0
            index = int(position_ids[0, -1]) - self.n_prompt + 1
            logits[0, -1, self.ids[min(max(index, 0), len(self.ids) - 1)]] = 1
            self.after_step(logits)

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

    decoding: bool
    input_ids: Any  # (1, T)
    logits: Any  # (1, R, vocab_size)
    run: BoundCall


class Observed:
    """Another backend, with `around(call)` in place of each call."""

    def __init__(self, backend: Backend, around: Callable[[Call], None]) -> None:
        self._backend = backend
        self._around = around
        self.prefills_apart = backend.prefills_apart

    def bind_prefill(self, input_ids: Any, position_ids: Any, logits: Any, kv_arrays: Any) -> BoundCall:
        run = self._backend.bind_prefill(input_ids, position_ids, logits, kv_arrays)
        return lambda: self._around(Call(False, input_ids, logits, run))

    def bind_decode(self, input_ids: Any, position_ids: Any, logits: Any, kv_arrays: Any) -> BoundCall:
        run = self._backend.bind_decode(input_ids, position_ids, logits, kv_arrays)
        return lambda: self._around(Call(True, input_ids, logits, run))


def observed(engine: Engine, around: Callable[[Call], None]) -> Engine:
    """Return an engine of the same model whose calls go through `around`."""
    return Engine(
        None,
        engine.config,
        n_valid=engine.n_valid,
        prefill_chunk=engine.prefill_chunk,
        backend=Observed(engine.backend, around),
    )
