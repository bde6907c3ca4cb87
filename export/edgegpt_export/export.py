"""A checkpoint becomes one verified .onnx file, or none."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgegpt.contract import ENGINE, META_EVIDENCE
from edgegpt.errors import ArtifactError, VerificationError
from edgegpt.model.checkpoint import load_checkpoint
from edgegpt.runtime.ort_backend import open_session
from edgegpt_export.bit_allocation import Quantisation
from edgegpt_export.building import build
from edgegpt_export.evidence import Evidence
from edgegpt_export.examples import read_examples
from edgegpt_export.request import Request
from edgegpt_export.sampling_defaults import read_sampling
from edgegpt_export.stamp import append_metadata, seal
from edgegpt_export.task_accuracy import task_accuracy
from edgegpt_export.verify import OnStep, verify
from edgegpt_export.write import data_path, staged, write_model


@dataclass(frozen=True)
class ExportReport:
    """What an export made.

    Attributes:
        path: the file.
        bytes: of the file and of the data beside it.
        evidence: what verification measured.
        seconds: time of each phase: load, build, save, verify.
        quantisation: the precision of every matrix, and why.
    """

    path: Path
    bytes: int
    evidence: Evidence
    seconds: dict[str, float]
    quantisation: Quantisation


def export_checkpoint(
    folder: str | Path,
    out: str | Path,
    *,
    target: str = ENGINE,
    precision: str = "fp32",
    kv_cache: str = "fp32",
    max_mb: float | None = None,
    max_kl: float | None = None,
    data: str | Path | None = None,
    on_step: OnStep = lambda _: None,
) -> ExportReport:
    """Build, save and verify; the file gets its name only when every number is within its limit.

    Args:
        folder: the checkpoint.
        out: the .onnx file to make; an older one is replaced.
        target: `engine` or `portable`.
        precision: `fp32`, `int8`, `int4`, or `auto`: the smallest mix within a limit, matrix by matrix.
        kv_cache: of a number in the cache, `fp32` or `int8`.
        max_mb: limit for `auto`: megabytes (10^6 bytes) of the file; the mix is then the best that fits.
        max_kl: limit for `auto`: mean KL(PyTorch || file) in nats on the text that is measured on.
        data: JSONL of prompts and completions like those that the robot will meet, to measure on and
            to compare answers by; without it the model measures on text of its own.
        on_step: is told what happens next, in a few words.

    Raises:
        VerificationError: a number is beyond its limit; no file is made and an older one stays.
        ArtifactError: `out` is not a possible file, or cannot be written.
        CheckpointError, ConfigError, TokenizerError, SamplingError: the checkpoint is not valid,
            or its head_dim is not a multiple of 8 and the target is `engine`.
        DataError: the data is not valid, or an example does not fit into the context.
        EdgeGPTError: the target, the precision or a limit is not valid, no mix is within the limit, or
            torch cannot export the model.
    """
    folder, out = Path(folder), Path(out)
    request = Request(out, target, precision, kv_cache, max_mb, max_kl, None if data is None else Path(data))
    request.check()
    seconds: dict[str, float] = {}
    with _timed(seconds, "load", on_step, f"loading {folder}"):
        checkpoint = load_checkpoint(folder)
        sampling = read_sampling(folder)
        examples = read_examples(request.data, checkpoint)
    with _timed(seconds, "build", on_step, f"building the {target} graph"):
        built = build(checkpoint, request, examples, sampling, on_step)
        quantisation = built.quantisation
    with _writing(out), staged(out) as temporary:
        with _timed(seconds, "save", on_step, "saving"):
            write_model(built.model, temporary)
            del built
        with _timed(seconds, "verify", on_step, "verifying"):
            session = open_session(temporary)
            evidence = verify(temporary, session, checkpoint.model, target, quantisation, on_step)
            if examples is not None:
                evidence = evidence.plus(
                    task_accuracy(session, checkpoint, target, quantisation, examples, on_step)
                )
        if evidence.failures:
            raise VerificationError(f"{out} is not made: " + "; ".join(evidence.failures))
        append_metadata(temporary, {META_EVIDENCE: evidence.to_json()})
        seal(temporary)
    size = sum(path.stat().st_size for path in (out, data_path(out)) if path.exists())
    return ExportReport(out, size, evidence, seconds, quantisation)


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
