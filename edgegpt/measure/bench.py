"""Measure one file in several processes, one after another, and put the figures together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from edgegpt.measure.distribution import Distribution
from edgegpt.measure.machine import Machine, machine
from edgegpt.measure.noise import load_noise, noise
from edgegpt.measure.process import measure_process
from edgegpt.measure.spec import Bandwidth, Plan, ProcessFigures
from edgegpt.runtime.onnx_file import File, read_file

PROCESSES: Final = 3  # a process may be lucky or unlucky in where its memory lies

Progress = Callable[[float], None]


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
    plan: Plan
    processes: tuple[ProcessFigures, ...]
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
    def largest(self) -> ProcessFigures:
        """The process that needed most memory."""
        return max(self.processes, key=lambda p: p.peak_rss_bytes or 0)

    def bytes_per_token(self, fill: int) -> int:
        """What a decode step reads with `fill` tokens in the cache: weights, and their keys and values."""
        capacity = self.plan.capacity or self.file.context
        return self.file.weight_bytes_per_token + self.largest.cache_bytes * fill // capacity

    def bytes_per_second(self, fill: int) -> float:
        """What it reads in a second at its median time."""
        return self.bytes_per_token(fill) / (self.token[fill].p50 / 1000)


def bench(
    path: str | Path, plan: Plan, *, before: Machine | None = None, on_progress: Progress | None = None
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
    before, figures = before or machine(), []
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
        noise=noise(figures, before, plan.threads) + load_noise(figures),
    )


def _share(on_progress: Progress | None, i: int) -> Progress | None:
    if on_progress is None:
        return None
    return lambda share: on_progress((i + share) / PROCESSES)


def _joined(parts: Sequence[dict[int, Distribution]]) -> dict[int, Distribution]:
    return {n: Distribution.joined([part[n] for part in parts]) for n in parts[0]}
