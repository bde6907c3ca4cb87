"""Worker process of edgegpt.autotune.run: compare one number of threads with one thread.

Both sessions are open and their bursts alternate, so that a noisy moment affects both; the result is the
ratio within a round.
"""

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from edgegpt.autotune.choose import PairedComparison, Ratio
from edgegpt.errors import MeasureError
from edgegpt.measure import Distribution, Progress, first_token_ms, random_ids, run_job, token_ms
from edgegpt.runtime import PREFILL_CHUNK, Engine, Tuning, open_artifact
from edgegpt.system import memory, moment

PROMPT: Final = 128  # tokens, or as many as fit
CHUNKS: Final = (16, 32, 64, 128)
_BURST: Final = 12
_MIN_ROUNDS: Final = 7  # with fewer than six a median has no interval
_REST_SECONDS: Final = 0.002

_Work = Callable[[], float]  # returns milliseconds


def work(job: dict[str, Any], progress: Progress) -> PairedComparison:
    """Compare a number of threads with one thread; `job` holds path, threads, spinning and seconds."""
    reference = Engine.from_artifact(open_artifact(job["path"], threads=1))
    _warm_up(reference)
    before = memory()
    tuning = replace(Tuning.of_threads(job["threads"]), spinning=job["spinning"])
    challenger = Engine.from_artifact(open_artifact(job["path"], threads=tuning))
    _warm_up(challenger)
    after = memory()
    rounds = _Rounds(reference, challenger)
    waited_percent = rounds.run(job["seconds"], progress)
    return PairedComparison(
        threads=job["threads"],
        spinning=job["spinning"],
        cache_fill=rounds.fill,
        prompt_tokens=rounds.prompt_tokens,
        token=rounds.token.ratio(),
        prompt={chunk: pair.ratio() for chunk, pair in rounds.prompt.items()},
        session_bytes=(
            None if before is None or after is None else max(0, after.private_bytes - before.private_bytes)
        ),
        waited_percent=waited_percent,
        round_ms=tuple(rounds.token.reference_ms),
    )


def chunks(prompt_tokens: int) -> tuple[int, ...]:
    """Return the prefill chunks to try: those that split such a prompt, and the first that takes it whole."""
    whole = next(chunk for chunk in CHUNKS if chunk >= max(prompt_tokens, PREFILL_CHUNK))
    return tuple(chunk for chunk in CHUNKS if chunk < prompt_tokens or chunk == whole)


class _Pair:
    """One call timed with one thread and with the challenger's; milliseconds of both in each round."""

    def __init__(self, reference: _Work, challenger: _Work) -> None:
        self._works = reference, challenger
        self.reference_ms: list[float] = []
        self.ms: list[float] = []

    def run(self) -> None:
        # Each call follows one of the other session, which fills the caches with its weights, and a pause in
        # which spinning threads fall asleep.
        for work, samples in zip(self._works, (self.reference_ms, self.ms), strict=True):
            time.sleep(_REST_SECONDS)
            samples.append(work())

    def clear(self) -> None:
        self.reference_ms.clear()
        self.ms.clear()

    def ratio(self) -> Ratio:
        ratios = Distribution(tuple(new / old for new, old in zip(self.ms, self.reference_ms, strict=True)))
        interval = ratios.interval(0.5)
        return Ratio(ms=statistics.median(self.ms), share=ratios.p50, low=interval.low, high=interval.high)


class _Rounds:
    """Rounds that measure decode steps and each prefill chunk in turn."""

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
        self.token = _Pair(partial(self._token, reference), partial(self._token, challenger))
        one = partial(self._prompt, reference, PREFILL_CHUNK)
        self.prompt = {
            chunk: _Pair(one, partial(self._prompt, challenger, chunk))
            for chunk in chunks(self.prompt_tokens)
        }

    def run(self, seconds: float, progress: Progress) -> float | None:
        """Warm up with one round, measure until the time is over, and return the share of time waited."""
        pairs = (self.token, *self.prompt.values())
        for pair in pairs:
            pair.run()
            pair.clear()
        before = moment()
        while (spent := time.perf_counter() - before.seconds) < seconds or len(self.token.ms) < _MIN_ROUNDS:
            for pair in pairs:
                pair.run()
            progress(min(spent / seconds if seconds else 1.0, len(self.token.ms) / _MIN_ROUNDS))
        return moment().percent_since(before)

    def _token(self, engine: Engine) -> float:
        return statistics.median(token_ms(engine, self._filled, self._ids[: self.fill], self._burst))

    def _prompt(self, engine: Engine, chunk: int) -> float:
        engine.prefill_chunk = chunk
        return first_token_ms(engine, self._empty, self._ids[: self.prompt_tokens])


def _warm_up(engine: Engine) -> None:
    """Run a prompt and a decode step, so that the session allocates the memory that they need."""
    cache = engine.new_cache()
    engine.prefill(cache, random_ids(engine, max(1, min(PREFILL_CHUNK, cache.capacity - 1))))
    if cache.room:
        engine.decode_one_token(cache, 0)


if __name__ == "__main__":
    sys.exit(run_job(work))
