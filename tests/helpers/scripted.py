"""A TextGenerator whose model answers from a script, and a clock that only its steps move."""

from dataclasses import replace

from conftest import TINY

from edgegpt.runtime import deadline, generator
from edgegpt.runtime.engine import Engine
from edgegpt.runtime.generator import TextGenerator
from edgegpt.runtime.sampling import SamplingParams
from helpers.tiny_files import tokenizer

GREEDY = SamplingParams(temperature=0.0)


class Clock:
    """Seconds that pass only when somebody says so."""

    def __init__(self, monkeypatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(deadline, "perf_counter", lambda: self.now)
        monkeypatch.setattr(generator, "perf_counter", lambda: self.now)


class Script:
    """Answers `ids` behind a prompt of n tokens, whatever the prompt; `before_step` may interfere."""

    def __init__(self, prompt: str, answer: str | list[int], *, block_size: int = TINY.block_size) -> None:
        tokens = tokenizer()
        ids = tokens.encode(answer) if isinstance(answer, str) else answer
        self.n_prompt = len(tokens.encode_prompt(prompt))
        self.ids = [*ids, tokens.eos_id]
        self.steps: list[int] = []  # tokens that each step read
        self.before_step = lambda n_tokens: None
        self.engine = Engine(None, replace(TINY, block_size=block_size), n_valid=270)
        self.engine._make_step = self._make_step
        self.generator = TextGenerator(self.engine, tokens, GREEDY)

    def _make_step(self, session, input_ids, position_ids, logits, cache):
        def step() -> None:
            self.before_step(input_ids.size)
            self.steps.append(input_ids.size)
            logits[:] = 0
            index = int(position_ids[0, -1]) - self.n_prompt + 1
            logits[0, -1, self.ids[min(max(index, 0), len(self.ids) - 1)]] = 1

        return step


def greedy(**changes) -> SamplingParams:
    """Greedy params with some changed."""
    return SamplingParams(**{"temperature": 0.0, **changes})
