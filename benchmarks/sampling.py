"""Time the choice of a token, by vocabulary and by sampling parameters.

    python benchmarks/sampling.py

Prints microseconds, the best of 300 rounds, for random logits with a standard deviation of 1 and of 4, as
flat and as peaked as those of a trained model.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

from edgegpt import SamplingParams
from edgegpt.runtime import new_rng, sample

CASES = {
    "greedy": SamplingParams(temperature=0.0),
    "temperature": SamplingParams(seed=0),
    "top_k 40": SamplingParams(top_k=40, seed=0),
    "top_p 0.9": SamplingParams(top_p=0.9, seed=0),
    "min_p 0.05": SamplingParams(min_p=0.05, seed=0),
    "all three": SamplingParams(top_k=40, top_p=0.9, min_p=0.05, seed=0),
}


def best(work: Callable[[], object], rounds: int = 300) -> float:
    """Return the microseconds of the fastest round."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times) * 1e6


def main() -> None:
    """Print the table."""
    table = Table("vocabulary", "spread", *CASES)
    for vocabulary in (512, 8192, 50257):
        for spread in (1.0, 4.0):
            logits = np.random.default_rng(0).standard_normal(vocabulary).astype(np.float32) * spread
            times = [best(partial(sample, logits, params, new_rng(params))) for params in CASES.values()]
            table.add_row(str(vocabulary), str(spread), *(f"{microseconds:.1f}" for microseconds in times))
    Console(width=120).print("microseconds", table)


if __name__ == "__main__":
    main()
