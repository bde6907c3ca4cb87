"""Measure one file in a fresh process and print JSON; run by test_budgets.py.

The process does what a robot's does, so its load time and peak memory are the model's, not pytest's.
"""

import json
import sys
import time
from pathlib import Path

started = time.perf_counter()

import edgegpt  # noqa: E402  # the import is part of the load time

ROUNDS, TOKENS = 5, 128


def measure(file: str, threads: int, prompt_tokens: int) -> dict[str, object]:
    model = edgegpt.load(file, threads=threads)
    load_ms = 1e3 * (time.perf_counter() - started)
    ids = [i % model.tokenizer.vocab_size for i in range(1, prompt_tokens + 1)]
    params = edgegpt.SamplingParams(max_new_tokens=TOKENS, temperature=0.0)
    rounds = [one_round(model.engine, ids, params) for _ in range(ROUNDS)]
    return {"load_ms": load_ms, "peak_rss_mb": peak_rss_mb(), "rounds": rounds}


def one_round(engine: edgegpt.Engine, ids: list[int], params: edgegpt.SamplingParams) -> dict[str, object]:
    """Times to first token of eight prompts, and the token times of one long answer, in milliseconds."""
    first, steps = [], []
    for _ in range(8):
        start = time.perf_counter()
        tokens = engine.generate(ids, params)
        next(tokens)
        first.append(1e3 * (time.perf_counter() - start))
    while True:
        start = time.perf_counter()
        if next(tokens, None) is None:
            return {"ttft_ms": first, "token_ms": steps}
        steps.append(1e3 * (time.perf_counter() - start))


def peak_rss_mb() -> float:
    # Not getrusage: its peak is inherited from the process that forked this one.
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in status if line.startswith("VmHWM"))


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
