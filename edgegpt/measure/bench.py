"""Measure one file in several processes, one after another, and put the figures together.

A bench for machines.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from edgegpt.measure.distribution import CONFIDENCE, Distribution
from edgegpt.measure.machine import Machine, this_machine
from edgegpt.measure.noise import load_noise, measured_noise
from edgegpt.measure.process import measure_process
from edgegpt.measure.spec import Bandwidth, MeasureSpec, ProcessResult
from edgegpt.measure.worker import Progress
from edgegpt.runtime import File, read_file

PROCESSES: Final = 3  # a process may be lucky or unlucky in where its memory lies


@dataclass(frozen=True)
class Bench:
    """What was measured of one file, all processes together.

    Attributes:
        file: what was measured.
        machine: before the first process started.
        plan: of each process.
        processes: each process's own figures, in order.
        first_token: milliseconds by prompt length.
        token: milliseconds by tokens in the cache before a burst.
        bandwidth: of memory beyond the last cache, and of a buffer as large as the file; empty where the
            plan leaves it out.
        noise: why the times are not to be trusted; empty on a quiet machine.
    """

    file: File
    machine: Machine
    plan: MeasureSpec
    processes: tuple[ProcessResult, ...]
    first_token: dict[int, Distribution]
    token: dict[int, Distribution]
    bandwidth: tuple[Bandwidth, ...]
    noise: tuple[str, ...]

    def of_processes(self, name: str) -> Distribution:
        """A figure of which each process has one or several: as `load_ms` or `tokenise`."""
        values = [getattr(process, name) for process in self.processes]
        if isinstance(values[0], Distribution):
            return Distribution.joined(values)
        return Distribution(tuple(values))

    @property
    def largest(self) -> ProcessResult:
        """The process that needed most memory."""
        return max(self.processes, key=lambda p: p.peak_rss_bytes or 0)

    def bytes_per_token(self, fill: int) -> int:
        """What a decode step reads with `fill` tokens in the cache: weights, and their keys and values."""
        capacity = self.plan.capacity or self.file.context
        return self.file.weight_bytes_per_token + self.largest.cache_bytes * fill // capacity

    def bytes_per_second(self, fill: int) -> float:
        """What it reads in a second at its median time."""
        return self.bytes_per_token(fill) / (self.token[fill].p50 / 1000)


def run_bench(
    path: str | Path, plan: MeasureSpec, *, before: Machine | None = None, on_progress: Progress | None = None
) -> Bench:
    """Measure a file in PROCESSES fresh processes that share `plan.seconds`.

    Args:
        path: the file.
        plan: what to measure.
        before: the machine before the caller's own work, which would count as load; None is now.
        on_progress: called with the share that is done, from 0 to 1.

    Raises:
        what `measure_process` raises.
    """
    before, figures = before or this_machine(), []
    for i in range(PROCESSES):
        last = i == PROCESSES - 1  # one measurement of the bandwidth is enough
        part = replace(plan, seconds=plan.seconds / PROCESSES, bandwidth=plan.bandwidth and last)
        figures.append(measure_process(path, part, on_progress=_share(on_progress, i)))
    return Bench(
        file=read_file(path),
        machine=before,
        plan=plan,
        processes=tuple(figures),
        first_token=_joined([p.first_token for p in figures]),
        token=_joined([p.token for p in figures]),
        bandwidth=figures[-1].bandwidth,
        noise=measured_noise(figures, before, plan.threads) + load_noise(figures),
    )


def _share(on_progress: Progress | None, i: int) -> Progress | None:
    if on_progress is None:
        return None
    return lambda share: on_progress((i + share) / PROCESSES)


def _joined(parts: Sequence[dict[int, Distribution]]) -> dict[int, Distribution]:
    return {n: Distribution.joined([part[n] for part in parts]) for n in parts[0]}


# What is inside each figure, for the table and the JSON alike.
INSIDE: Final = {
    "first_token": "prompt ids to the first new id: reading the prompt, the check for NaN, argmax; "
    "no tokenising, no drawing, no text; the longest prompt leaves one position for the answer",
    "token": "one id to the next: one call of the graph, the check for NaN, argmax; no drawing, no text",
    "tokenise": "text to ids, which a request pays before its first token",
    "draw": "one token by temperature 1 and top_p 0.95 instead of argmax, which a request that is not "
    "greedy pays for each token on top",
    "load": "from the start of the imports to a warmed-up model; the interpreter's own start is not in it",
    "memory": "private pages were written by the process; mapped ones are files (libraries, mapped weights), "
    "which the system may drop and processes share; the peak is over all requests",
    "bytes": "read by one token: the weights, one row of each embedding that is only looked up, and the "
    "keys and values in the cache; compared with the fastest of several passes over a buffer",
}


def bench_json(result: Bench) -> dict[str, Any]:
    """Everything but the single samples; milliseconds, bytes and bytes a second, as the names say."""
    memory_bandwidth, model_bandwidth = result.bandwidth
    return {
        "file": asdict(result.file),
        "machine": {**asdict(result.machine), "available_cores": result.machine.available_cores},
        "threads": result.plan.threads,
        "seconds": result.plan.seconds,
        "processes": len(result.processes),
        "rounds": sum(len(process.round_ms) for process in result.processes),
        "confidence": CONFIDENCE,
        "first_token_ms": [
            {"prompt_tokens": n, **part.summary(), "prompt_tokens_per_second": 1000 * n / part.mean}
            for n, part in result.first_token.items()
        ],
        "token_ms": [
            {
                "cache_fill": n,
                **part.summary(),
                "tokens_per_second": 1000 / part.mean,
                "bytes_per_token": result.bytes_per_token(n),
                "bytes_per_second": result.bytes_per_second(n),
                "share_of_memory_bandwidth": result.bytes_per_second(n) / memory_bandwidth.bytes_per_second,
                "share_of_model_bandwidth": result.bytes_per_second(n) / model_bandwidth.bytes_per_second,
            }
            for n, part in result.token.items()
        ],
        "tokenise_ms": {
            "prompt_tokens": result.largest.tokenise_tokens,
            **result.of_processes("tokenise").summary(),
        },
        "draw_ms": result.of_processes("draw").summary(),
        "import_ms": result.of_processes("import_ms").summary(),
        "load_ms": result.of_processes("load_ms").summary(),
        "first_reply_ms": result.of_processes("first_reply_ms").summary(),
        "idle_cpu_percent": max((p.idle_cpu_percent or 0.0) for p in result.processes),
        "memory": _memory(result.largest),
        "memory_bandwidth": asdict(memory_bandwidth),
        "model_bandwidth": asdict(model_bandwidth),
        "inside": INSIDE,
        "noise": list(result.noise),
    }


def _memory(process: ProcessResult) -> dict[str, Any]:
    moments = {"imported": process.imported, "loaded": process.loaded, "worked": process.worked}
    return {
        "peak_rss_bytes": process.peak_rss_bytes,
        **{name: None if moment is None else asdict(moment) for name, moment in moments.items()},
        "kv_cache_bytes": process.cache_bytes,
    }
