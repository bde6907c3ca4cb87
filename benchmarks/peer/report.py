"""Results as Markdown and as plain data."""

import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import date
from typing import Any

import numpy as np

from edgegpt.measure import this_machine
from peer.measure import PREFILL, Result
from peer.roster import version

_HEAD = (
    "| engine | decode step, us: p50 / p99 | p99/p50 | beside edgegpt | "
    f"prefill of {PREFILL}, ms | load, ms | RSS, MB: private + mapped | KL | top-1 | max abs |"
)
NOTES = """
A step is everything from one greedy token to the next: the engine's call, its choice of the token, the
token in Python. "beside edgegpt" is how many times as long as edgegpt's a step is, with as many bits in the
weights. Prefill is the time to the first token; load the opening of the model without the imports; RSS that
of the whole process after one burst. KL, top-1 and max abs compare logits with edgegpt fp32 on 64
positions, half of them of the peer's own greedy tokens. Threads spin or sleep as each engine does by
default. llama.cpp: float16 cache but for F32, 8-bit head beside 4-bit matrices. OpenVINO: held to float32;
its cache is concatenated in states of the model, and the head reads all prompt tokens.
""".strip()


def circumstances(threads: int, rounds: int, results: Sequence[Result]) -> str:
    """One line: processor, threads, versions, date, and how busy the machine was."""
    here = this_machine()
    packages = dict.fromkeys((r.row.package, version(r.row)) for r in results)
    versions = ", ".join(f"{name} {number}" for name, number in packages)
    return (
        f"{here.cpu}, {here.architecture}, {here.available_cores} of {here.cores} cores, "
        f"Python {platform.python_version()}, {versions}, {date.today()}. "
        f"Threads: {threads}, rounds: {rounds}, "
        f"load {here.load or 0:.1f} at the end."
    )


def table(size: str, results: Sequence[Result]) -> Iterator[str]:
    """The lines of one model's section."""
    ours = {r.row.bits: np.median(r.steps) for r in results if r.row.is_ours and r.steps}
    yield f"### {size}\n"
    yield _HEAD
    yield "|---" * _HEAD.count(" | ") + "|---|"
    for result in results:
        if not result.error:
            yield _line(result, ours)
    errors = [f"- {r.row.name}: {r.error}" for r in results if r.error]
    if errors:
        yield "\nNot timed:\n"
        yield from errors
    yield ""


def _line(result: Result, ours: dict[int, Any]) -> str:
    p50, p99 = np.percentile(result.steps, [50, 99])
    bits, parity, memory = result.row.bits, result.parity, result.memory
    assert parity is not None  # no error, so it was proved
    cells = [
        result.row.name,
        f"{p50:.0f} / {p99:.0f}",
        f"{p99 / p50:.2f}",
        f"{p50 / ours[bits]:.2f}x" if bits in ours else "",
        f"{np.median(result.prefills):.2f}",
        f"{result.start['load_ms']:.0f}",
        f"{memory['rss']:.0f}: {memory['private']:.0f} + {memory['mapped']:.0f}",
        f"{parity.kl:.1e}",
        f"{parity.top1:.0%}",
        f"{parity.max_abs:.1e}",
    ]
    return f"| {' | '.join(cells)} |"


def data(size: str, threads: int, results: Sequence[Result]) -> list[dict[str, Any]]:
    """The same for machines, with every single time."""
    return [{"size": size, "threads": threads, "version": version(r.row), **asdict(r)} for r in results]
