"""The process that measures one file; started by edgegpt.measure.process.

It does what a robot's process does, in the same order, so that its load time and memory are the
model's.
"""

import time

started = time.perf_counter()

# The imports are part of the load time.
import edgegpt  # noqa: E402

edgegpt.load  # noqa: B018  # public names are imported when they are first asked for
imported = time.perf_counter()

import statistics  # noqa: E402
import sys  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

from edgegpt.errors import MeasureError, PromptError  # noqa: E402
from edgegpt.measure.distribution import Distribution  # noqa: E402
from edgegpt.measure.job import Progress, do  # noqa: E402
from edgegpt.measure.memory import memory, peak_rss_bytes  # noqa: E402
from edgegpt.measure.plan import (  # noqa: E402
    MIN_ROUNDS,
    Bandwidth,
    Plan,
    ProcessFigures,
    figures_to_json,
    plan_from_json,
)
from edgegpt.measure.timing import MS, first_token_ms, random_ids, token_ms, waited_seconds  # noqa: E402
from edgegpt.sampling import SamplingParams, new_rng, sample  # noqa: E402

_PROMPTS = (8, 32, 128)
_FIRST_FILL = 16
_PARTS = 50  # samples of what is measured beside the engine
_DRAW = SamplingParams(temperature=1.0, top_p=0.95, seed=0)
_SLOPE_STEPS = 50  # moments at which memory is looked at


def work(job: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """The job of edgegpt.measure.process.measure_process."""
    return figures_to_json(measure(job["path"], plan_from_json(job["plan"]), progress))


def measure(path: str, plan: Plan, progress: Progress) -> ProcessFigures:
    """All that the plan asks for; memory is looked at before the bandwidth's buffer takes any."""
    after_import = memory()
    start = time.perf_counter()
    model = edgegpt.load(path, threads=plan.threads, capacity=plan.capacity)
    load_seconds = time.perf_counter() - start + (imported - started)
    after_load = memory()
    start = time.perf_counter()
    try:
        model.generate("go", SamplingParams(max_new_tokens=8, temperature=0.0))
    except PromptError as e:
        capacity = model.engine.capacity
        raise MeasureError(
            f"a context of {capacity} tokens is too short to measure; it has no room for 'go' and an answer"
        ) from e
    first_reply_seconds = time.perf_counter() - start
    idle = _idle_cpu_percent(plan.idle_seconds) if plan.idle_seconds else None
    rounds = _Rounds(model.engine, plan)
    rounds.run(plan.seconds, progress)
    tokenise, tokenise_tokens = _tokenise(model)
    slope = _rss_slope(model.engine, plan.generations) if plan.generations else None
    after_work, peak = memory(), peak_rss_bytes()
    return ProcessFigures(
        import_ms=MS * (imported - started),
        load_ms=MS * load_seconds,
        first_reply_ms=MS * first_reply_seconds,
        imported=after_import,
        loaded=after_load,
        worked=after_work,
        peak_rss_bytes=peak,
        cache_bytes=rounds.cache.bytes,
        idle_cpu_percent=idle,
        first_token={n: Distribution(tuple(samples)) for n, samples in rounds.first.items()},
        token={n: Distribution(tuple(samples)) for n, samples in rounds.token.items()},
        tokenise=tokenise,
        tokenise_tokens=tokenise_tokens,
        draw=_draw(model.engine),
        round_ms=tuple(rounds.medians),
        waited_percent=rounds.waited_percent,
        rss_slope_kb_per_1000=slope,
        bandwidth=_bandwidth(path, plan.threads) if plan.bandwidth else (),
    )


class _Rounds:
    """Rounds that take every prompt length and every cache fill in turn, so that a noisy moment hits all."""

    def __init__(self, engine: edgegpt.Engine, plan: Plan) -> None:
        self._engine = engine
        self.cache = engine.new_cache()
        longest = engine.capacity - 1  # a request keeps one position for its answer
        prompts = plan.prompts or (*(n for n in _PROMPTS if n < longest), longest)
        self._burst = plan.burst if plan.fills else max(1, min(plan.burst, engine.capacity // 4))
        fullest = engine.capacity - self._burst - 1
        fills = plan.fills or sorted({min(_FIRST_FILL, fullest), engine.capacity // 2, fullest})
        _check_fit("a prompt", prompts, longest, engine.capacity)
        _check_fit(f"a cache that is to take {self._burst} more", fills, fullest, engine.capacity)
        self._ids = random_ids(engine, engine.capacity)
        self.first: dict[int, list[float]] = {n: [] for n in prompts}
        self.token: dict[int, list[float]] = {n: [] for n in fills}
        self.medians: list[float] = []
        self.waited_percent: float | None = None

    def run(self, seconds: float, progress: Progress) -> None:
        """One round to warm up, then rounds until the time is over."""
        self._round()
        for samples in (*self.first.values(), *self.token.values(), self.medians):
            samples.clear()
        waited, start = waited_seconds(), time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds or len(self.medians) < MIN_ROUNDS:
            self._round()
            progress(min(spent / seconds if seconds else 1.0, len(self.medians) / MIN_ROUNDS))
        if waited is not None:
            self.waited_percent = (
                100 * ((waited_seconds() or waited) - waited) / (time.perf_counter() - start)
            )

    def _round(self) -> None:
        for n, samples in self.first.items():
            samples.append(first_token_ms(self._engine, self.cache, self._ids[:n]))
        self.cache.rewind(0)
        self._engine.prefill(self.cache, self._ids[: max(self.token)])  # what the bursts look back on
        for n in sorted(self.token, reverse=True):  # each burst rewinds the one before it
            self.token[n] += token_ms(self._engine, self.cache, self._ids[:n], self._burst)
        self.medians.append(statistics.median(self.token[min(self.token)][-self._burst :]))


def _check_fit(what: str, lengths: tuple[int, ...] | list[int], most: int, capacity: int) -> None:
    for n in lengths:
        if not 1 <= n <= most:
            raise MeasureError(
                f"{what} must have from 1 to {most} tokens, got {n}; the context holds {capacity}"
            )


def _idle_cpu_percent(seconds: float) -> float:
    cpu, wall = time.process_time(), time.perf_counter()
    time.sleep(seconds)
    return 100 * (time.process_time() - cpu) / (time.perf_counter() - wall)


def _tokenise(model: edgegpt.TextGenerator) -> tuple[Distribution, int]:
    """A text that has about 32 tokens, as far as the context allows."""
    tokenizer, text = model.tokenizer, "go"
    most = min(32, model.engine.capacity - 1)
    while len(tokenizer.encode_prompt(longer := f"{text} forward two metres")) <= most:
        text = longer
    samples = []
    for _ in range(_PARTS):
        start = time.perf_counter()
        ids = tokenizer.encode_prompt(text)
        samples.append(MS * (time.perf_counter() - start))
    return Distribution(tuple(samples)), len(ids)


def _draw(engine: edgegpt.Engine) -> Distribution:
    logits = np.random.default_rng(0).normal(0.0, 2.0, engine.n_valid).astype(np.float32)
    rng, samples = new_rng(_DRAW), []
    for _ in range(_PARTS):
        start = time.perf_counter()
        sample(logits, _DRAW, rng)
        samples.append(MS * (time.perf_counter() - start))
    return Distribution(tuple(samples))


def _rss_slope(engine: edgegpt.Engine, generations: int) -> float | None:
    """kB per 1000 generations of varied lengths: the slope of a line through what was resident.

    The first quarter warms up: allocators and pools have seen every length then.
    """
    ids, rng = random_ids(engine, engine.capacity), np.random.default_rng(1)
    longest = max(2, min(64, engine.capacity // 2))
    counts, resident = [], []
    for i in range(-(generations // 4), generations + 1):
        if i >= 0 and i % max(1, generations // _SLOPE_STEPS) == 0:
            if (now := memory()) is None:
                return None
            counts.append(i)
            resident.append(now.rss_bytes)
        n_prompt, n_new = (int(n) for n in rng.integers(1, longest, size=2))
        for _ in engine.generate(ids[:n_prompt], SamplingParams(max_new_tokens=n_new, temperature=0.0)):
            pass
    return float(np.polyfit(counts, resident, 1)[0])  # bytes each is kB per 1000


def _bandwidth(path: str, threads: int) -> tuple[Bandwidth, ...]:
    from edgegpt.measure.bandwidth import beyond_cache_bytes, read_bandwidth  # not before memory is known
    from edgegpt.measure.file import read_file

    beyond, model = beyond_cache_bytes(), read_file(path).bytes
    return read_bandwidth(beyond, threads), read_bandwidth(min(model, beyond), threads)


if __name__ == "__main__":
    sys.exit(do(work))
