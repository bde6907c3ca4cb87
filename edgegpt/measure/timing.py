"""Time an engine in this process, in rounds over every prompt length and cache fill.

A time is what a greedy request takes in the engine: the graph, the check for NaN, argmax and the bookkeeping
of `Engine.generate`, without tokenising, drawing from a distribution and turning ids into text.
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
_PROMPTS: Final = (8, 32, 128)
_FIRST_FILL: Final = 16


def first_token_ms(engine: Engine, cache: KVCache, ids: Sequence[int]) -> float:
    """Return one time to first token: empty the cache, read the ids, choose the first new id."""
    cache.rewind(0)
    tokens = engine.generate(ids, _greedy(1), cache=cache)
    start = perf_counter()
    next(tokens)
    return MS * (perf_counter() - start)


def token_ms(engine: Engine, cache: KVCache, ids: Sequence[int], n: int) -> list[float]:
    """Return the times of a burst of n decode steps; the first one finds all of `ids` in the cache.

    The cache has to hold at least all ids but the last. Afterwards it holds the new ones too.
    """
    cache.rewind(len(ids) - 1)
    tokens = engine.generate(ids[-1:], _greedy(n + 1), cache=cache)
    next(tokens)  # reads the last id as a prompt of one
    marks = [perf_counter()]
    for _ in tokens:
        marks.append(perf_counter())
    return [MS * (end - start) for start, end in pairwise(marks)]


def random_ids(engine: Engine, n: int) -> list[int]:
    """Return the same n ids in every run, drawn from all that may be generated.

    They are drawn by Python's generator: numpy.random would add 7 MB to a process whose memory is measured.
    """
    return Random(0).choices(range(engine.n_valid), k=n)


def _greedy(max_new_tokens: int) -> SamplingParams:
    return SamplingParams(max_new_tokens=max_new_tokens, temperature=0.0)


class Rounds:
    """Times of one engine, measured in rounds so that a noisy moment affects all lengths equally.

    Attributes:
        cache: KV cache that all requests used.
        first: times to first token in milliseconds, by prompt length.
        token: times of decode steps in milliseconds, by cache fill.
        medians: median of each round in milliseconds, at the smallest fill, or without fills at the
            shortest prompt.
        seconds: duration of the rounds.
        waited_percent: see ProcessResult.
    """

    def __init__(self, engine: Engine, spec: MeasureSpec) -> None:
        """Prepare the rounds; raises MeasureError where a length of the spec does not fit the context."""
        self._engine, self._spec = engine, spec
        self.cache = engine.new_cache()
        longest = engine.capacity - 1  # one position is left for the answer
        prompts = (*(n for n in _PROMPTS if n < longest), longest) if spec.prompts is None else spec.prompts
        self._burst = spec.burst if spec.fills else max(1, min(spec.burst, engine.capacity // 4))
        fullest = engine.capacity - self._burst - 1
        usual = sorted({min(_FIRST_FILL, fullest), engine.capacity // 2, fullest})
        fills = usual if spec.fills is None else spec.fills
        _check_fit("a prompt", prompts, longest, engine.capacity)
        _check_fit(f"a cache that is to take {self._burst} more", fills, fullest, engine.capacity)
        self._ids = random_ids(engine, engine.capacity)
        self.first: dict[int, list[float]] = {n: [] for n in prompts}
        self.token: dict[int, list[float]] = {n: [] for n in fills}
        self.medians: list[float] = []
        self.seconds = 0.0
        self.waited_percent: float | None = None

    def run(self, progress: Progress) -> None:
        """Read the longest prompt, warm up with one round, then measure until time and samples are enough."""
        if self.token or self._spec.longest:
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
        """Return the share of the work that is done after `spent` seconds, at least 1 at its end."""
        spec, rounds = self._spec, len(self.medians)
        shares = [rounds / MIN_ROUNDS, spent / spec.seconds if spec.seconds else 1.0]
        if spent < MOST_TIMES * spec.seconds:
            wanted = chain(
                ((samples, spec.first_samples) for samples in self.first.values()),
                ((samples, spec.token_samples) for samples in self.token.values()),
            )
            shares += [len(samples) / least for samples, least in wanted if least]
        return min(shares)

    def _round(self) -> None:
        repeats = self._spec.repeats
        for n, samples in self.first.items():
            samples += [first_token_ms(self._engine, self.cache, self._ids[:n]) for _ in range(repeats)]
        if self.token:
            # As in a request, decode steps follow the reading of a prompt, which leaves the caches in
            # another state than decoding does, and the first dozen steps may take twice as long.
            self.cache.rewind(0)
            self._engine.prefill(self.cache, self._ids[: max(self.token)])
        for n in sorted(self.token, reverse=True):  # each burst rewinds the one before it
            self.token[n] += token_ms(self._engine, self.cache, self._ids[:n], self._burst)
        if self.token:
            last = self.token[min(self.token)][-self._burst :]
        else:
            last = self.first[min(self.first)][-repeats:]
        self.medians.append(percentile(last, 0.5))


def _check_fit(what: str, lengths: tuple[int, ...] | list[int], most: int, capacity: int) -> None:
    for n in lengths:
        if not 1 <= n <= most:
            raise MeasureError(
                f"{what} must have from 1 to {most} tokens, got {n}; the context holds {capacity}"
            )
