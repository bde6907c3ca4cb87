"""Build the best models with random weights and measure them on this machine, beside what was predicted."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edgegpt.accounting import kv_cache_bytes, parameter_count
from edgegpt.config import ModelConfig
from edgegpt.measure.distribution import Distribution
from edgegpt.measure.machine import machine
from edgegpt.measure.noise import noise
from edgegpt.measure.plan import Plan as Measuring
from edgegpt.measure.plan import ProcessFigures
from edgegpt.measure.process import measure_process
from edgegpt.planner.limits import Limits
from edgegpt.planner.search import Rated

_PROCESSES: Final = 2
_SECONDS: Final = 1.0  # in each
_SLOW_SAMPLES: Final = (".p99", ".max")

# Writes an engine file of a config with random weights: path, config, precision.
WriteFile = Callable[[Path, ModelConfig, str], None]


@dataclass(frozen=True)
class Finalist:
    """A model that was built.

    Attributes:
        rated: with what was predicted.
        measured: by the same names; what the system does not tell is missing.
        noise: why the times are not to be trusted.
    """

    rated: Rated
    measured: dict[str, float]
    noise: tuple[str, ...]

    def keeps(self, limits: Limits) -> bool:
        """Whether everything that was measured keeps its limit."""
        return not self.broken(limits)

    def broken(self, limits: Limits) -> tuple[str, ...]:
        """The limits that it does not keep; on a busy machine slow samples are the machine's."""
        return tuple(
            name
            for name, limit in limits.values.items()
            if self.measured.get(name, 0.0) > limit and not (self.noise and name.endswith(_SLOW_SAMPLES))
        )


def measure_finalists(
    best: Sequence[Rated],
    limits: Limits,
    threads: int,
    write_file: WriteFile,
    on_step: Callable[[str], None] = lambda _: None,
) -> Iterator[Finalist]:
    """Measure each in fresh processes.

    Raises:
        MeasureError: a process failed, or threads cannot be.
    """
    for i, rated in enumerate(best):
        on_step(f"building and measuring finalist {i + 1} of {len(best)}")
        yield _measure(rated, limits, threads, write_file)


def _measure(rated: Rated, limits: Limits, threads: int, write_file: WriteFile) -> Finalist:
    config, precision = rated.candidate.config, rated.candidate.precision
    prompts = (min(limits.prompt_tokens, config.block_size - 1),)
    measuring = Measuring(threads=threads, prompts=prompts, seconds=_SECONDS, idle_seconds=0.0)
    before = machine()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "finalist.onnx"
        write_file(path, config, precision)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        runs = [measure_process(path, measuring) for _ in range(_PROCESSES)]
    found = {
        "parameters": float(parameter_count(config)),
        "artifact_mb": size / 1e6,
        "kv_cache_mb": kv_cache_bytes(config, config.block_size) / 1e6,
        "load_ms": min(run.load_ms for run in runs),
        **_times("ttft_ms", [part for run in runs for part in run.first_token.values()]),
        **_times("token_ms", [part for run in runs for part in run.token.values()]),
    }
    return Finalist(rated, found | _memory(runs), noise(runs, before, threads))


def _times(name: str, parts: Sequence[Distribution]) -> dict[str, float]:
    together = Distribution.joined(parts)
    return {f"{name}.p50": together.p50, f"{name}.p99": together.p99, f"{name}.max": together.max}


def _memory(runs: Sequence[ProcessFigures]) -> dict[str, float]:
    peaks = [run.peak_rss_bytes for run in runs if run.peak_rss_bytes is not None]
    return {"peak_rss_mb": max(peaks) / 1e6} if peaks else {}
