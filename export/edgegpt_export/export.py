"""Build, save and verify: a checkpoint becomes one verified .onnx file, or none."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from onnx import ModelProto

from edgegpt.contract import ENGINE, EVIDENCE_BYTES, META_EVIDENCE, PORTABLE
from edgegpt.errors import ArtifactError, EdgeGPTError, VerificationError
from edgegpt.model import Checkpoint, load_checkpoint
from edgegpt.quantization import AUTO, Recipe, weight_bytes
from edgegpt.runtime import Evidence, open_session, three_digits
from edgegpt_export.bit_allocation import (
    Quantisation,
    Sensitivities,
    preset,
    smallest_recipe,
    within_bytes,
    within_kl,
)
from edgegpt_export.calibration import (
    Sequences,
    cache_scales,
    calibration_sequences,
    sensitivities,
    torch_logits,
)
from edgegpt_export.graph import build_engine_graph, packer
from edgegpt_export.portable import build_portable_graph
from edgegpt_export.request import MB, Examples, ExportRequest, OnStep, read_examples, read_sampling
from edgegpt_export.runner import GrowingCache, Logits, mean_kl
from edgegpt_export.task_accuracy import task_accuracy
from edgegpt_export.verify import verify
from edgegpt_export.write import (
    add_metadata,
    append_metadata,
    data_path,
    metadata,
    staged,
    write_digest,
    write_model,
)


@dataclass(frozen=True)
class ExportReport:
    """Result of one export.

    Attributes:
        path: the file.
        bytes: size of the file and of its external data.
        evidence: the verification result.
        seconds: time of each phase: load, build, save, verify.
        quantisation: the precision of every matrix, and how it was chosen.
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
        precision: `fp32`, `int8`, `int4`, or `auto`: mixed precision, chosen matrix by matrix within a limit.
        kv_cache: type of the numbers in the cache, `fp32` or `int8`.
        max_mb: limit for `auto`: megabytes (10^6 bytes) of the file; the most accurate recipe that fits.
        max_kl: limit for `auto`: mean KL(PyTorch || file) in nats on the calibration text; the smallest
            recipe within it.
        data: JSONL of prompts and completions like those on the robot, as calibration text and to
            compare answers by; without it the model generates its own calibration text.
        on_step: called with a short status message.

    Raises:
        VerificationError: a number is outside its limit; no file is made and an older one stays.
        ArtifactError: `out` is not a possible file, or cannot be written.
        CheckpointError, ConfigError, TokenizerError, SamplingError: the checkpoint is not valid,
            or its head_dim is not a multiple of 8 and the target is `engine`.
        DataError: the data is not valid, or an example does not fit into the context.
        EdgeGPTError: the target, the precision or a limit is not valid, no recipe is within the limit,
            or torch cannot export the model.
    """
    folder, out = Path(folder), Path(out)
    data = None if data is None else Path(data)
    request = ExportRequest(out, target, precision, kv_cache, max_mb, max_kl, data)
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
        write_digest(temporary)
    size = sum(path.stat().st_size for path in (out, data_path(out)) if path.exists())
    return ExportReport(out, size, evidence, seconds, quantisation)


@dataclass(frozen=True)
class Built:
    """A model in memory with its metadata, and how it is quantised."""

    model: ModelProto
    quantisation: Quantisation


def build(
    checkpoint: Checkpoint,
    request: ExportRequest,
    examples: Examples | None,
    sampling: Mapping[str, Any],
    on_step: OnStep,
) -> Built:
    """Build the graph that the request asks for.

    Raises:
        EdgeGPTError: no recipe is within the limit, or torch cannot export the model.
        ConfigError: head_dim is not a multiple of 8 and the target is `engine`.
    """
    if request.target == PORTABLE:
        quantisation = preset(checkpoint.config, request.precision)
        model = build_portable_graph(checkpoint.model)
    else:
        engine = _EngineBuild(checkpoint, request, examples, sampling, on_step)
        quantisation = engine.allocate() if request.precision == AUTO else engine.preset()
        model = engine.graph(quantisation.bits)
    return Built(_with_metadata(model, checkpoint, request, quantisation, sampling), quantisation)


class _EngineBuild:
    """The arrays and measurements that all candidate graphs of one checkpoint share."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        request: ExportRequest,
        examples: Examples | None,
        sampling: Mapping[str, Any],
        on_step: OnStep,
    ) -> None:
        self._checkpoint, self._request, self._sampling = checkpoint, request, sampling
        self._examples, self._on_step = examples, on_step
        self._weights = checkpoint.arrays
        self._pack = packer(self._weights)
        self._sequences: Sequences = []
        int8_cache = request.kv_cache == "int8"
        if request.precision == AUTO or int8_cache:
            on_step("preparing the calibration text")
            self._sequences = calibration_sequences(checkpoint, examples)
        self._scales = cache_scales(checkpoint.model, self._sequences) if int8_cache else None

    def graph(self, bits: Recipe) -> ModelProto:
        return build_engine_graph(self._checkpoint.config, self._weights, bits, self._scales, self._pack)

    def preset(self) -> Quantisation:
        return preset(self._checkpoint.config, self._request.precision, self._request.kv_cache)

    def allocate(self) -> Quantisation:
        """Return the recipe for the request's limit."""
        config, request = self._checkpoint.config, self._request
        model = self._checkpoint.model
        found = sensitivities(model, self._pack, self._sequences, self._reference, self._on_step)
        if request.max_kl is not None:
            bits, kl = within_kl(config, found, request.max_kl, self._measure)
        else:
            bits = self._within_megabytes(found)
            kl = self._measure(bits)
        return self._quantisation(bits, found, kl)

    @cached_property
    def _reference(self) -> list[Logits]:
        """PyTorch's logits of each calibration sequence, which every candidate is compared with."""
        return torch_logits(self._checkpoint.model, self._sequences)

    def _within_megabytes(self, found: Sensitivities) -> dict[str, int]:
        config, limit = self._checkpoint.config, self._request.max_mb or 0.0
        smallest = smallest_recipe(found)
        quantisation = self._quantisation(smallest, found, kl=0.0)
        graph = self.graph(smallest)
        model = _with_metadata(graph, self._checkpoint, self._request, quantisation, self._sampling)
        size = model.ByteSize() + EVIDENCE_BYTES
        if size > limit * MB:
            raise EdgeGPTError(
                f"no mixed precision fits into {limit:g} MB: the smallest file of this model has "
                f"{size / MB:.2f} MB"
            )
        return within_bytes(config, found, int(limit * MB) - size + weight_bytes(config, smallest))

    def _measure(self, bits: Recipe) -> float:
        """Return the mean KL(PyTorch || file), in nats, of the graph as the robot runs it."""
        self._on_step("measuring a recipe")
        session = open_session(self.graph(bits).SerializeToString())
        got: list[Logits] = [
            GrowingCache(session, self._checkpoint.config, batch=1).feed(ids[None])[0]
            for ids in self._sequences
        ]
        return mean_kl(self._reference, got)

    def _quantisation(self, bits: Recipe, found: Sensitivities, kl: float) -> Quantisation:
        request = self._request
        limit = {"max_kl": request.max_kl} if request.max_kl is not None else {"max_mb": request.max_mb}
        alone = {
            name: {str(bits): three_digits(kl) for bits, kl in by_bits.items()}
            for name, by_bits in found.items()
        }
        text = "text of the model's own" if self._examples is None else self._examples.name
        why = {
            "limit": limit,
            "kl": three_digits(kl),
            "measured_on": f"{len(self._sequences)} sequences of {text}",
            "kl_of_one_matrix_alone": alone,
        }
        return Quantisation(request.precision, bits, request.kv_cache, why)


def _with_metadata(
    model: ModelProto,
    checkpoint: Checkpoint,
    request: ExportRequest,
    quantisation: Quantisation,
    sampling: Mapping[str, Any],
) -> ModelProto:
    add_metadata(model, metadata(checkpoint, request.target, quantisation, sampling))
    return model


@contextmanager
def _timed(seconds: dict[str, float], phase: str, on_step: OnStep, message: str) -> Iterator[None]:
    on_step(message)
    start = time.perf_counter()
    yield
    seconds[phase] = time.perf_counter() - start


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    """Turn an OSError inside the block into an ArtifactError that names the file and the cause."""
    try:
        yield
    except OSError as e:
        raise ArtifactError(f"{out} cannot be written: {e.strerror or e}") from e
