"""Measure one file in several processes, one after another, and join their results."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from edgegpt.measure import (
    CONFIDENCE,
    Bandwidth,
    Distribution,
    Machine,
    MeasureSpec,
    ProcessResult,
    Progress,
    load_noise,
    measure_process,
    measured_noise,
    this_machine,
)
from edgegpt.runtime import File, read_file

PROCESSES: Final = 3  # one process may be faster than another by the layout of its memory alone


# Definition of each figure, for the tables and the JSON.
INSIDE: Final = {
    "first_token": "prompt ids to the first new id: reading the prompt, the check for NaN, argmax; "
    "no tokenising, no drawing, no text; the longest prompt leaves one position for the answer",
    "token": "one id to the next: one call of the graph, the check for NaN, argmax; no drawing, no text",
    "tokenise": "text to ids, which a request does before its first token",
    "draw": "one token by temperature 1 and top_p 0.95 instead of argmax; a request that is not greedy adds "
    "it to each token",
    "load": "from the start of the imports to a warmed-up model, without the interpreter's own start",
    "memory": "private pages were written by the process; mapped ones are files (libraries, mapped weights), "
    "which the system may drop and processes share; the peak covers all requests",
    "bytes": "read by one decode step: the weights, one row of each embedding that is only looked up, and "
    "the keys and values in the cache; compared with the fastest of several passes over a buffer",
}


@dataclass(frozen=True)
class Bench:
    """Measurements of one file, all processes together.

    Attributes:
        file: facts of the file.
        machine: the machine before the first process started.
        spec: what each process measured.
        processes: each process's own figures, in order.
        first_token: times to first token in milliseconds, by prompt length.
        token: times of a decode step in milliseconds, by tokens in the cache before the burst.
        bandwidth: memory bandwidth for a buffer larger than the last cache, and for one as large as the
            file; empty where the spec leaves it out.
        noise: reasons to doubt the times (edgegpt.measure.noise); empty where they can be trusted.
    """

    file: File
    machine: Machine
    spec: MeasureSpec
    processes: tuple[ProcessResult, ...]
    first_token: dict[int, Distribution]
    token: dict[int, Distribution]
    bandwidth: tuple[Bandwidth, ...]
    noise: tuple[str, ...]

    def of_processes(self, name: str) -> Distribution:
        """Join one figure of all processes, one or several samples each, such as `load_ms` or `tokenise`."""
        values = [getattr(process, name) for process in self.processes]
        if isinstance(values[0], Distribution):
            return Distribution.joined(values)
        return Distribution(tuple(values))

    @property
    def largest(self) -> ProcessResult:
        """The process with the largest peak memory."""
        return max(self.processes, key=lambda p: p.peak_rss_bytes or 0)

    def bytes_per_token(self, fill: int) -> int:
        """Return the bytes of a decode step with `fill` tokens in the cache: weights, keys and values."""
        capacity = self.spec.capacity or self.file.context
        return self.file.weight_bytes_per_token + self.largest.cache_bytes * fill // capacity

    def bytes_per_second(self, fill: int) -> float:
        """Return the bytes per second that a decode step reads at its median time."""
        return self.bytes_per_token(fill) / (self.token[fill].p50 / 1000)

    def to_json(self) -> dict[str, Any]:
        """Return everything but the single samples for JSON; units are in the keys."""
        memory_bandwidth, model_bandwidth = self.bandwidth
        largest = self.largest
        memory = {"imported": largest.imported, "loaded": largest.loaded, "worked": largest.worked}
        return {
            "file": asdict(self.file),
            "machine": self.machine.to_json(),
            "threads": self.spec.threads,
            "seconds": self.spec.seconds,
            "processes": len(self.processes),
            "rounds": sum(len(process.round_ms) for process in self.processes),
            "confidence": CONFIDENCE,
            "first_token_ms": [
                {"prompt_tokens": n, **part.summary(), "prompt_tokens_per_second": 1000 * n / part.mean}
                for n, part in self.first_token.items()
            ],
            "token_ms": [
                {
                    "cache_fill": n,
                    **part.summary(),
                    "tokens_per_second": 1000 / part.mean,
                    "bytes_per_token": self.bytes_per_token(n),
                    "bytes_per_second": self.bytes_per_second(n),
                    "share_of_memory_bandwidth": self.bytes_per_second(n) / memory_bandwidth.bytes_per_second,
                    "share_of_model_bandwidth": self.bytes_per_second(n) / model_bandwidth.bytes_per_second,
                }
                for n, part in self.token.items()
            ],
            "tokenise_ms": {
                "prompt_tokens": largest.tokenise_tokens,
                **self.of_processes("tokenise").summary(),
            },
            "draw_ms": self.of_processes("draw").summary(),
            "import_ms": self.of_processes("import_ms").summary(),
            "load_ms": self.of_processes("load_ms").summary(),
            "first_reply_ms": self.of_processes("first_reply_ms").summary(),
            "idle_cpu_percent": max((p.idle_cpu_percent or 0.0) for p in self.processes),
            "memory": {
                "peak_rss_bytes": largest.peak_rss_bytes,
                **{name: None if moment is None else asdict(moment) for name, moment in memory.items()},
                "kv_cache_bytes": largest.cache_bytes,
            },
            "memory_bandwidth": asdict(memory_bandwidth),
            "model_bandwidth": asdict(model_bandwidth),
            "inside": INSIDE,
            "noise": list(self.noise),
        }


def run_bench(
    path: str | Path, spec: MeasureSpec, *, before: Machine | None = None, on_progress: Progress | None = None
) -> Bench:
    """Measure a file in PROCESSES fresh processes that share `spec.seconds`.

    Args:
        path: the file.
        spec: what to measure.
        before: the machine before the caller's own work, which would count as load; None reads it now.
        on_progress: called with the share that is done, from 0 to 1.

    Raises:
        MeasureError, ArtifactError, EngineError, NonFiniteLogitsError: as `measure_process`.
    """
    before, figures = before or this_machine(), []
    for i in range(PROCESSES):
        last = i == PROCESSES - 1  # one measurement of the bandwidth is enough
        part = replace(spec, seconds=spec.seconds / PROCESSES, bandwidth=spec.bandwidth and last)
        figures.append(measure_process(path, part, on_progress=_share(on_progress, i)))
    return Bench(
        file=read_file(path),
        machine=before,
        spec=spec,
        processes=tuple(figures),
        first_token=_joined([p.first_token for p in figures]),
        token=_joined([p.token for p in figures]),
        bandwidth=figures[-1].bandwidth,
        noise=measured_noise(figures, before, spec.threads) + load_noise(figures),
    )


def _share(on_progress: Progress | None, i: int) -> Progress | None:
    if on_progress is None:
        return None
    return lambda share: on_progress((i + share) / PROCESSES)


def _joined(parts: Sequence[dict[int, Distribution]]) -> dict[int, Distribution]:
    return {n: Distribution.joined([part[n] for part in parts]) for n in parts[0]}
