"""Times of an engine in this process.

They are what a greedy request pays in the engine: the graph, the check for NaN, argmax and the bookkeeping
of `Engine.generate`. Tokenising, drawing from a distribution and turning ids into text are not in them.

Rounds of one engine that take every prompt length and every cache fill in turn.
"""

import time
from collections.abc import Sequence
from itertools import chain, pairwise
from random import Random
from time import perf_counter
from typing import Final

from edgegpt.errors import MeasureError
from edgegpt.measure.spec import MIN_ROUNDS, MOST_TIMES, MeasureSpec
from edgegpt.measure.worker import Progress
from edgegpt.runtime import Engine, KVCache, SamplingParams, percentile
from edgegpt.system import moment

MS: Final = 1000.0


def first_token_ms(engine: Engine, cache: KVCache, ids: Sequence[int]) -> float:
    """One sample: the cache is emptied, the ids are read, the first new id is chosen."""
    cache.rewind(0)
    tokens = engine.generate(ids, _greedy(1), cache=cache)
    start = perf_counter()
    next(tokens)
    return MS * (perf_counter() - start)


def token_ms(engine: Engine, cache: KVCache, ids: Sequence[int], n: int) -> list[float]:
    """One burst: n samples, from the token that finds all of `ids` in the cache on.

    The cache holds at least all ids but the last, and stays full of what came after them.
    """
    cache.rewind(len(ids) - 1)
    tokens = engine.generate(ids[-1:], _greedy(n + 1), cache=cache)
    next(tokens)  # reads the last id as a prompt of one
    marks = [perf_counter()]
    for _ in tokens:
        marks.append(perf_counter())
    return [MS * (end - start) for start, end in pairwise(marks)]


def random_ids(engine: Engine, n: int) -> list[int]:
    """The same n ids in every run, spread over all that may be generated.

    By Python's own generator: numpy.random would take 7 MB of a process whose memory is measured.
    """
    return Random(0).choices(range(engine.n_valid), k=n)


def _greedy(max_new_tokens: int) -> SamplingParams:
    return SamplingParams(max_new_tokens=max_new_tokens, temperature=0.0)


_PROMPTS: Final = (8, 32, 128)
_FIRST_FILL: Final = 16


class Rounds:
    """What was timed of one engine; a noisy moment hits all lengths alike.

    Attributes:
        cache: the one that all of it used.
        first: milliseconds of the first token by prompt length.
        token: milliseconds of further tokens by cache fill.
        medians: of each round, at the smallest fill; at the shortest prompt where there is no fill.
        seconds: that the rounds took.
        waited_percent: see ProcessFigures.
    """

    def __init__(self, engine: Engine, plan: MeasureSpec) -> None:
        """Raises MeasureError where a length of the plan does not fit the context."""
        self._engine, self._plan = engine, plan
        self.cache = engine.new_cache()
        longest = engine.capacity - 1  # a request keeps one position for its answer
        prompts = (*(n for n in _PROMPTS if n < longest), longest) if plan.prompts is None else plan.prompts
        self._burst = plan.burst if plan.fills else max(1, min(plan.burst, engine.capacity // 4))
        fullest = engine.capacity - self._burst - 1
        usual = sorted({min(_FIRST_FILL, fullest), engine.capacity // 2, fullest})
        fills = usual if plan.fills is None else plan.fills
        _check_fit("a prompt", prompts, longest, engine.capacity)
        _check_fit(f"a cache that is to take {self._burst} more", fills, fullest, engine.capacity)
        self._ids = random_ids(engine, engine.capacity)
        self.first: dict[int, list[float]] = {n: [] for n in prompts}
        self.token: dict[int, list[float]] = {n: [] for n in fills}
        self.medians: list[float] = []
        self.seconds = 0.0
        self.waited_percent: float | None = None

    def run(self, progress: Progress) -> None:
        """The longest prompt, one round to warm up, then rounds until there is time or samples enough."""
        if self.token or self._plan.longest:
            self._engine.prefill(self.cache, self._ids[: self._engine.capacity - 1])
        if not self.first and not self.token:
            return
        self._round()
        for samples in (*self.first.values(), *self.token.values(), self.medians):
            samples.clear()
        before = moment()
        while (done := self._done(time.perf_counter() - before.seconds)) < 1:
            progress(done)
            self._round()
        progress(1.0)
        after = moment()
        self.seconds = after.seconds - before.seconds
        self.waited_percent = after.percent_since(before)

    def _done(self, spent: float) -> float:
        """The share of the work, 1 at its end."""
        plan, rounds = self._plan, len(self.medians)
        shares = [rounds / MIN_ROUNDS, spent / plan.seconds if plan.seconds else 1.0]
        if spent < MOST_TIMES * plan.seconds:
            wanted = chain(
                ((samples, plan.first_samples) for samples in self.first.values()),
                ((samples, plan.token_samples) for samples in self.token.values()),
            )
            shares += [len(samples) / least for samples, least in wanted if least]
        return min(shares)

    def _round(self) -> None:
        for n, samples in self.first.items():
            samples += [
                first_token_ms(self._engine, self.cache, self._ids[:n]) for _ in range(self._plan.repeats)
            ]
        if self.token:
            # An answer follows its prompt, whose reading leaves the processor's caches otherwise than another
            # answer does: the first dozen tokens may take twice as long.
            self.cache.rewind(0)
            self._engine.prefill(self.cache, self._ids[: max(self.token)])
        for n in sorted(self.token, reverse=True):  # each burst rewinds the one before it
            self.token[n] += token_ms(self._engine, self.cache, self._ids[:n], self._burst)
        last = (
            self.token[min(self.token)][-self._burst :]
            if self.token
            else self.first[min(self.first)][-self._plan.repeats :]
        )
        self.medians.append(percentile(last, 0.5))


def _check_fit(what: str, lengths: tuple[int, ...] | list[int], most: int, capacity: int) -> None:
    for n in lengths:
        if not 1 <= n <= most:
            raise MeasureError(
                f"{what} must have from 1 to {most} tokens, got {n}; the context holds {capacity}"
            )
