"""Worker process of edgegpt.measure.process: measure one file.

It does what a robot's process does, in the same order, so that load time and memory are the model's.
"""

import time

started = time.perf_counter()
try:  # as edgegpt.system.waited_seconds reads it, which is not imported yet
    with open("/proc/self/schedstat", encoding="ascii") as schedstat:  # noqa: PTH123
        waited_before = int(schedstat.read().split()[1]) / 1e9
except (OSError, ValueError, IndexError):
    waited_before = 0.0

# The imports are part of the load time.
import edgegpt  # noqa: E402

edgegpt.load  # noqa: B018  # public names are imported when they are first asked for
imported = time.perf_counter()

import sys  # noqa: E402
from random import Random  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

from edgegpt.errors import MeasureError, PromptError  # noqa: E402
from edgegpt.measure import (  # noqa: E402
    MS,
    Bandwidth,
    Distribution,
    MeasureSpec,
    ProcessResult,
    Progress,
    Rounds,
    growth,
    run_job,
)
from edgegpt.runtime import SamplingParams, new_rng, sample  # noqa: E402
from edgegpt.system import memory, peak_rss_bytes, waited_seconds  # noqa: E402

_PARTS = 50  # samples of each time outside the engine
_DRAW = SamplingParams(temperature=1.0, top_p=0.95, seed=0)


def work(job: dict[str, Any], progress: Progress) -> ProcessResult:
    """Measure for edgegpt.measure.process.measure_process; `job` holds path and spec."""
    return measure(job["path"], MeasureSpec.from_json(job["spec"]), progress)


def measure(path: str, spec: MeasureSpec, progress: Progress) -> ProcessResult:
    """Measure what the spec asks for; memory is read before any work that a robot's process does not do."""
    after_import = memory()
    start = time.perf_counter()
    model = edgegpt.load(path, threads=spec.threads, capacity=spec.capacity)
    load_seconds = time.perf_counter() - start + (imported - started)
    waited = waited_seconds()
    load_waited = None if waited is None else min(load_seconds, max(0.0, waited - waited_before))
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
    idle = _idle_cpu_percent(spec.idle_seconds) if spec.idle_seconds else None
    rounds = Rounds(model.engine, spec)
    rounds.run(progress)
    waited_percent = rounds.waited_percent
    if not rounds.medians and load_waited is not None:
        waited_percent = 100 * load_waited / load_seconds
    after_work, peak = memory(), peak_rss_bytes()
    grown = growth(model.engine, spec.requests, spec.seed) if spec.requests else None
    tokenise, tokenise_tokens = _tokenise(model) if spec.apart else (None, 0)
    return ProcessResult(
        import_ms=MS * (imported - started),
        load_ms=MS * load_seconds,
        load_waited_ms=None if load_waited is None else MS * load_waited,
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
        draw=_draw(model.engine) if spec.apart else None,
        round_ms=tuple(rounds.medians),
        seconds=rounds.seconds,
        waited_percent=waited_percent,
        rss_slope_kb_per_1000=None if grown is None else grown.kb_per_1000,
        watched_requests=0 if grown is None else grown.requests,
        bandwidth=_bandwidth(path, spec.threads) if spec.bandwidth else (),
    )


def _idle_cpu_percent(seconds: float) -> float:
    cpu, wall = time.process_time(), time.perf_counter()
    time.sleep(seconds)
    return 100 * (time.process_time() - cpu) / (time.perf_counter() - wall)


def _tokenise(model: edgegpt.TextGenerator) -> tuple[Distribution, int]:
    """Time a text of about 32 tokens, or as many as the context allows; return its length too."""
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
    made = Random(0)
    logits = np.array([made.gauss(0.0, 2.0) for _ in range(engine.n_valid)], np.float32)
    rng, samples = new_rng(_DRAW), []
    for _ in range(_PARTS):
        start = time.perf_counter()
        sample(logits, _DRAW, rng)
        samples.append(MS * (time.perf_counter() - start))
    return Distribution(tuple(samples))


def _bandwidth(path: str, threads: int) -> tuple[Bandwidth, ...]:
    from edgegpt.measure.bandwidth import beyond_cache_bytes, read_bandwidth  # not before memory is known
    from edgegpt.runtime import read_file

    beyond, model = beyond_cache_bytes(), read_file(path).bytes
    return read_bandwidth(beyond, threads), read_bandwidth(min(model, beyond), threads)


if __name__ == "__main__":
    sys.exit(run_job(work))
