"""A checkpoint becomes one verified .onnx file, or none."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto

from edgegpt.checkpoint import Checkpoint, load_checkpoint
from edgegpt.contract import ENGINE, META_EVIDENCE, PORTABLE
from edgegpt.errors import ArtifactError, EdgeGPTError, VerificationError
from edgegpt.ort_session import check_file_name, open_session
from edgegpt.precision import PRECISIONS
from edgegpt_export.cache_scales import cache_scales
from edgegpt_export.calibration import calibration_sequences
from edgegpt_export.evidence import Evidence
from edgegpt_export.graph import build_engine_graph
from edgegpt_export.portable import build_portable_graph
from edgegpt_export.quantisation import Quantisation, preset
from edgegpt_export.sampling_defaults import read_sampling
from edgegpt_export.save import data_path, staged, write_model
from edgegpt_export.stamp import add_metadata, append_metadata, metadata, seal
from edgegpt_export.verify import OnStep, verify


@dataclass(frozen=True)
class ExportReport:
    """What an export made.

    Attributes:
        path: the file.
        bytes: of the file and of the data beside it.
        evidence: what verification measured.
        seconds: time of each phase: load, build, save, verify.
    """

    path: Path
    bytes: int
    evidence: Evidence
    seconds: dict[str, float]


def export_checkpoint(
    folder: str | Path,
    out: str | Path,
    *,
    target: str = ENGINE,
    precision: str = "fp32",
    kv_cache: str = "fp32",
    data: Path | None = None,
    on_step: OnStep = lambda _: None,
) -> ExportReport:
    """Build, save and verify; the file gets its name only when every number is within its limit.

    Args:
        folder: the checkpoint.
        out: the .onnx file to make; an older one is replaced.
        target: `engine` or `portable`.
        precision: `fp32`, `int8` or `int4`.
        kv_cache: of a number in the cache, `fp32` or `int8`.
        data: JSONL of prompts and completions like those that the robot will meet, to measure on;
            without it the model measures on text of its own.
        on_step: is told what happens next, in a few words.

    Raises:
        VerificationError: a number is beyond its limit; no file is made and an older one stays.
        ArtifactError: `out` is not a possible file, or cannot be written.
        CheckpointError, ConfigError, TokenizerError, SamplingError: the checkpoint is not valid,
            or its head_dim is not a multiple of 8 and the target is `engine`.
        EdgeGPTError: the target or the precision is not known, or torch cannot export the model.
    """
    folder, out = Path(folder), Path(out)
    _check_request(out, target, precision, kv_cache)
    seconds: dict[str, float] = {}
    with _timed(seconds, "load", on_step, f"loading {folder}"):
        checkpoint = load_checkpoint(folder)
        sampling = read_sampling(folder)
    with _timed(seconds, "build", on_step, f"building the {target} graph"):
        quantisation = preset(checkpoint.config, precision, kv_cache)
        model = _build(checkpoint, target, quantisation, data)
        add_metadata(model, metadata(checkpoint, target, quantisation, sampling))
    with _writing(out), staged(out) as temporary:
        with _timed(seconds, "save", on_step, "saving"):
            write_model(model, temporary)
            del model
        with _timed(seconds, "verify", on_step, "verifying"):
            session = open_session(temporary)
            evidence = verify(temporary, session, checkpoint.model, target, quantisation, on_step)
        if evidence.failures:
            raise VerificationError(f"{out} is not made: " + "; ".join(evidence.failures))
        append_metadata(temporary, {META_EVIDENCE: evidence.to_json()})
        seal(temporary)
    size = sum(path.stat().st_size for path in (out, data_path(out)) if path.exists())
    return ExportReport(out, size, evidence, seconds)


def _build(checkpoint: Checkpoint, target: str, quantisation: Quantisation, data: Path | None) -> ModelProto:
    if target == PORTABLE:
        return build_portable_graph(checkpoint.model)
    weights = {name: tensor.numpy() for name, tensor in checkpoint.model.state_dict().items()}
    scales = None
    if quantisation.kv_cache == "int8":
        scales = cache_scales(checkpoint.model, calibration_sequences(checkpoint, data))
    return build_engine_graph(checkpoint.config, weights, quantisation.bits, scales)


def _check_request(out: Path, target: str, precision: str, kv_cache: str) -> None:
    if target not in (ENGINE, PORTABLE):
        raise EdgeGPTError(f"target must be {ENGINE} or {PORTABLE}, got {target!r}")
    if precision not in PRECISIONS:
        raise EdgeGPTError(f"precision must be {' or '.join(PRECISIONS)}, got {precision!r}")
    if kv_cache not in ("fp32", "int8"):
        raise EdgeGPTError(f"kv_cache must be fp32 or int8, got {kv_cache!r}")
    if target == PORTABLE and (precision, kv_cache) != ("fp32", "fp32"):
        raise EdgeGPTError(
            f"the portable target has standard operators only and is fp32, got {precision} with a cache of "
            f"{kv_cache}; the engine target has every precision"
        )
    if out.is_dir():
        raise ArtifactError(f"{out} is a folder, expected the name of an .onnx file to make")
    if out.suffix != ".onnx":
        raise ArtifactError(f"the output file must end in .onnx, got {out}")
    if not out.parent.is_dir():
        raise ArtifactError(f"{out} cannot be written: the folder {out.parent} does not exist")
    check_file_name(out.absolute())


@contextmanager
def _timed(seconds: dict[str, float], phase: str, on_step: OnStep, what: str) -> Iterator[None]:
    on_step(what)
    start = time.perf_counter()
    yield
    seconds[phase] = time.perf_counter() - start


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    """Say which file could not be written, and why."""
    try:
        yield
    except OSError as e:
        raise ArtifactError(f"{out} cannot be written: {e.strerror or e}") from e
