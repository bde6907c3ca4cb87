"""Measure load time and memory of fresh processes, with files of several shapes."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edgegpt.accounting import kv_cache_bytes
from edgegpt.config import ModelConfig
from edgegpt.errors import MeasureError
from edgegpt.measure import MeasureSpec, ProcessResult, Progress, measure_process
from edgegpt.prediction import CallCosts, Load, Memory, ModelWork, PerMb, PerPrecision
from edgegpt.profiling.timing import WriteFile
from edgegpt.quantization import PRECISIONS, recipe, weight_bytes

_CONTEXT: Final = 64
_TINY: Final = (512, 32, 1)  # vocab_size, n_embd, n_layer
_DEEP: Final = (512, 32, 33)
_WIDE: Final = (16384, 32, 1)
_LAYERS: Final = 7
# Widths that give some 6 MB of weights, and some 20.
_INSIDE: Final = {"fp32": 128, "int8": 256, "int4": 320}
_BESIDE: Final = {"fp32": 256, "int8": 512, "int4": 640}
_RUNS: Final = 2  # processes for each file; the faster counts


@dataclass(frozen=True)
class _Sample:
    mb: float  # megabytes of weights
    load_ms: float  # without imports and warm-up
    import_ms: float
    memory_mb: float  # peak, without cache and imports
    import_mb: float


def measure_processes(
    write_file: WriteFile, threads: int, costs: CallCosts, on_share: Progress
) -> tuple[Load, Memory, list[ProcessResult]]:
    """Fit what layers, vocabulary and MB of weights add to load time and memory; return all processes too.

    Raises:
        MeasureError: this system does not report the memory of a process.
    """
    n_files = 3 + len(_INSIDE) + len(_BESIDE)
    all_runs: list[ProcessResult] = []

    def sample(shape: tuple[int, int, int], precision: str) -> _Sample:
        found, runs = _sample(write_file, threads, costs, shape, precision)
        all_runs.extend(runs)
        on_share(len(all_runs) / _RUNS / n_files)
        return found

    tiny, deep, wide = (sample(shape, "fp32") for shape in (_TINY, _DEEP, _WIDE))
    inside = {p: sample((512, _INSIDE[p], _LAYERS), p) for p in PRECISIONS}
    beside = {p: sample((512, _BESIDE[p], _LAYERS), p) for p in PRECISIONS}
    samples = (tiny, deep, wide, *inside.values(), *beside.values())

    def terms(name: str) -> tuple[float, float, float, PerMb]:
        def of(s: _Sample) -> float:
            return float(getattr(s, name))

        base = of(tiny)
        layer = max(0.0, of(deep) - base) / (_DEEP[2] - _TINY[2])
        vocabulary = max(0.0, of(wide) - base) / (_WIDE[0] - _TINY[0]) * 1e3

        def per_mb(by_precision: dict[str, _Sample]) -> PerPrecision:
            known = base + layer * (_LAYERS - 1)
            return PerPrecision(**{p: max(0.0, of(s) - known) / s.mb for p, s in by_precision.items()})

        return base, layer, vocabulary, PerMb(inside=per_mb(inside), beside=per_mb(beside))

    base, layer, vocabulary, mb = terms("load_ms")
    load = Load(
        import_ms=min(s.import_ms for s in samples),
        base_ms=base,
        ms_per_layer=layer,
        ms_per_1000_tokens=vocabulary,
        ms_per_mb=mb,
    )
    base, layer, vocabulary, mb = terms("memory_mb")
    memory = Memory(
        import_mb=min(s.import_mb for s in samples),
        base_mb=base,
        mb_per_layer=layer,
        mb_per_1000_tokens=vocabulary,
        mb_per_mb=mb,
    )
    return load, memory, all_runs


def _sample(
    write_file: WriteFile, threads: int, costs: CallCosts, shape: tuple[int, int, int], precision: str
) -> tuple[_Sample, list[ProcessResult]]:
    vocab_size, n_embd, n_layer = shape
    config = ModelConfig(
        vocab_size=vocab_size,
        block_size=_CONTEXT,
        n_layer=n_layer,
        n_head=n_embd // 32,
        n_embd=n_embd,
        tie_embeddings=True,
    )
    bits = recipe(config, precision)
    spec = MeasureSpec(threads=threads, prompts=(), fills=(), seconds=0.0, apart=False, idle_seconds=0.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.onnx"
        write_file(path, config, precision)
        runs = [measure_process(path, spec) for _ in range(_RUNS)]
    cache_mb = kv_cache_bytes(config, _CONTEXT) / 1e6
    warm_up_ms = costs.warm_up_us(ModelWork.of(config, bits)) / 1e3
    made = _Sample(
        mb=weight_bytes(config, bits) / 1e6,
        load_ms=max(0.0, min(r.load_ms - r.import_ms for r in runs) - warm_up_ms),
        import_ms=min(r.import_ms for r in runs),
        memory_mb=min(_peak_mb(r) - _import_mb(r) for r in runs) - cache_mb,
        import_mb=min(_import_mb(r) for r in runs),
    )
    return made, runs


def _peak_mb(run: ProcessResult) -> float:
    if run.peak_rss_bytes is None:
        raise MeasureError("this system has no /proc/self/status, from which the memory of a process is read")
    return run.peak_rss_bytes / 1e6


def _import_mb(run: ProcessResult) -> float:
    if run.imported is None:
        raise MeasureError("this system has no /proc/self/smaps_rollup, from which memory is read")
    return run.imported.rss_bytes / 1e6
