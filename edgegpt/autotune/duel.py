"""The process that measures one way to run a file against one thread; started by edgegpt.autotune.run.

Both are open at once and take turns burst by burst, so that a noisy moment hits both, and what counts
is the ratio within a round.
"""

import statistics
import sys
import time
from dataclasses import replace
from typing import Any, Final, NamedTuple

from edgegpt.artifact import open_artifact
from edgegpt.autotune.figures import Duel, Relative
from edgegpt.engine import Engine
from edgegpt.errors import MeasureError
from edgegpt.measure.distribution import Distribution
from edgegpt.measure.job import Progress, do
from edgegpt.measure.memory import memory
from edgegpt.measure.timing import first_token_ms, random_ids, token_ms, waited_seconds
from edgegpt.tuning import PREFILL_CHUNK, Tuning

PROMPT: Final = 128  # tokens, or as many as fit
CHUNKS: Final = (16, 32, 64, 128)
_BURST: Final = 12
_MIN_ROUNDS: Final = 7  # with fewer than six a median has no interval


def work(job: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """The job of edgegpt.autotune.run: path, threads, spinning, seconds."""
    reference = Engine.from_artifact(open_artifact(job["path"], threads=1))
    _warm_up(reference)
    before = memory()
    tuning = replace(Tuning.of_threads(job["threads"]), spinning=job["spinning"])
    challenger = Engine.from_artifact(open_artifact(job["path"], threads=tuning))
    _warm_up(challenger)
    after = memory()
    rounds = _Rounds(reference, challenger)
    waited_percent = rounds.run(job["seconds"], progress)
    return Duel(
        threads=job["threads"],
        spinning=job["spinning"],
        cache_fill=rounds.fill,
        prompt_tokens=rounds.prompt_tokens,
        token=_relative(rounds.token, rounds.reference_token),
        prompt={chunk: _relative(ms, rounds.reference_prompt) for chunk, ms in rounds.prompt.items()},
        session_bytes=(
            None if before is None or after is None else max(0, after.private_bytes - before.private_bytes)
        ),
        waited_percent=waited_percent,
        round_ms=tuple(rounds.reference_token),
    ).model_dump()


def chunks(prompt_tokens: int) -> tuple[int, ...]:
    """Lengths of pieces worth trying: those that cut such a prompt, and the first that takes it whole."""
    whole = next(chunk for chunk in CHUNKS if chunk >= max(prompt_tokens, PREFILL_CHUNK))
    return tuple(chunk for chunk in CHUNKS if chunk < prompt_tokens or chunk == whole)


class _Step(NamedTuple):
    samples: list[float]  # milliseconds, one a round
    engine: Engine
    chunk: int | None  # of a prompt; None measures further tokens


class _Rounds:
    """Milliseconds of both in each round: median of a burst of further tokens, and prompt to first token."""

    def __init__(self, reference: Engine, challenger: Engine) -> None:
        capacity = reference.capacity
        self._burst = min(_BURST, capacity - 2)
        if self._burst < 1:
            raise MeasureError(f"a context of {capacity} tokens is too short to measure; it needs at least 3")
        self.fill = max(1, min(capacity // 2, capacity - self._burst - 1))
        self.prompt_tokens = min(PROMPT, capacity - 1)
        self._ids = random_ids(reference, capacity)
        self._filled, self._empty = reference.new_cache(), reference.new_cache()
        reference.prefill(self._filled, self._ids[: self.fill])
        self.reference_token: list[float] = []
        self.token: list[float] = []
        self.reference_prompt: list[float] = []
        self.prompt: dict[int, list[float]] = {chunk: [] for chunk in chunks(self.prompt_tokens)}
        self._steps: list[_Step] = [
            _Step(self.reference_token, reference, None),
            _Step(self.token, challenger, None),
            _Step(self.reference_prompt, reference, PREFILL_CHUNK),
            *(_Step(samples, challenger, chunk) for chunk, samples in self.prompt.items()),
        ]

    def run(self, seconds: float, progress: Progress) -> float | None:
        """One round to warm up, then rounds until the time is over; returns the share of time waited."""
        self._round(0)
        for step in self._steps:
            step.samples.clear()
        waited, start = waited_seconds(), time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds or len(self.token) < _MIN_ROUNDS:
            self._round(len(self.token))
            progress(min(spent / seconds if seconds else 1.0, len(self.token) / _MIN_ROUNDS))
        if waited is None:
            return None
        return 100 * ((waited_seconds() or waited) - waited) / (time.perf_counter() - start)

    def _round(self, number: int) -> None:
        # Whoever comes behind a thread that still spins or a cache that another has filled does so in
        # every second round only.
        for samples, engine, chunk in self._steps if number % 2 == 0 else reversed(self._steps):
            samples.append(self._token(engine) if chunk is None else self._prompt(engine, chunk))

    def _token(self, engine: Engine) -> float:
        return statistics.median(token_ms(engine, self._filled, self._ids[: self.fill], self._burst))

    def _prompt(self, engine: Engine, chunk: int) -> float:
        engine.prefill_chunk = chunk
        return first_token_ms(engine, self._empty, self._ids[: self.prompt_tokens])


def _warm_up(engine: Engine) -> None:
    """What onnxruntime allocates for a prompt and for a further token belongs to the session."""
    cache = engine.new_cache()
    engine.prefill(cache, random_ids(engine, max(1, min(PREFILL_CHUNK, cache.capacity - 1))))
    if cache.room:
        engine.decode_one_token(cache, 0)


def _relative(ms: list[float], reference_ms: list[float]) -> Relative:
    ratios = Distribution(tuple(new / old for new, old in zip(ms, reference_ms, strict=True)))
    interval = ratios.interval(0.5)
    return Relative(ms=statistics.median(ms), share=ratios.p50, low=interval.low, high=interval.high)


if __name__ == "__main__":
    sys.exit(do(work))
