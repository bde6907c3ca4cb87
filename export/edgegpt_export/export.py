"""A checkpoint becomes one verified .onnx file, or none.

From a checkpoint and a request to the model in memory: what is quantised, and how, is decided here.
"""

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
from edgegpt.runtime import open_session
from edgegpt_export.bit_allocation import Quantisation, preset, smallest_recipe, within_bytes, within_kl
from edgegpt_export.calibration import (
    Sensitivities,
    Sequences,
    cache_scales,
    calibration_sequences,
    sensitivities,
    torch_logits,
)
from edgegpt_export.evidence import Evidence, three_digits
from edgegpt_export.graph import build_engine_graph, packer
from edgegpt_export.portable import build_portable_graph
from edgegpt_export.request import MB, Examples, Request, read_examples, read_sampling
from edgegpt_export.runner import GrowingCache, Logits, mean_kl
from edgegpt_export.task_accuracy import task_accuracy
from edgegpt_export.verify import OnStep, verify
from edgegpt_export.write import add_metadata, append_metadata, data_path, metadata, seal, staged, write_model


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


@dataclass(frozen=True)
class Built:
    """A model in memory with its metadata, and what of it is quantised."""

    model: ModelProto
    quantisation: Quantisation


def build(
    checkpoint: Checkpoint,
    request: Request,
    examples: Examples | None,
    sampling: Mapping[str, Any],
    on_step: OnStep,
) -> Built:
    """Build the graph that the request asks for.

    Raises:
        EdgeGPTError: no mix is within the limit, or torch cannot export the model.
        ConfigError: head_dim is not a multiple of 8 and the target is `engine`.
    """
    if request.target == PORTABLE:
        quantisation = preset(checkpoint.config, request.precision)
        model = build_portable_graph(checkpoint.model)
    else:
        engine = _EngineBuild(checkpoint, request, examples, sampling, on_step)
        quantisation = engine.mix() if request.precision == AUTO else engine.preset()
        model = engine.graph(quantisation.bits)
    return Built(_stamped(model, checkpoint, request, quantisation, sampling), quantisation)


def _stamped(
    model: ModelProto,
    checkpoint: Checkpoint,
    request: Request,
    quantisation: Quantisation,
    sampling: Mapping[str, Any],
) -> ModelProto:
    add_metadata(model, metadata(checkpoint, request.target, quantisation, sampling))
    return model


class _EngineBuild:
    """What several graphs of one checkpoint share while a mix is looked for."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        request: Request,
        examples: Examples | None,
        sampling: Mapping[str, Any],
        on_step: OnStep,
    ) -> None:
        self._checkpoint, self._request, self._sampling = checkpoint, request, sampling
        self._examples, self._on_step = examples, on_step
        self._weights = checkpoint.arrays
        self._pack = packer(self._weights)
        self._sequences: Sequences = []
        if request.precision == AUTO or request.kv_cache == "int8":
            on_step("preparing the text to measure on")
            self._sequences = calibration_sequences(checkpoint, examples)
        wanted = request.kv_cache == "int8"
        self._scales = cache_scales(checkpoint.model, self._sequences) if wanted else None

    @cached_property
    def _reference(self) -> list[Logits]:
        """PyTorch's logits, which every mix is held against."""
        return torch_logits(self._checkpoint.model, self._sequences)

    def graph(self, bits: Recipe) -> ModelProto:
        return build_engine_graph(self._checkpoint.config, self._weights, bits, self._scales, self._pack)

    def preset(self) -> Quantisation:
        return preset(self._checkpoint.config, self._request.precision, self._request.kv_cache)

    def mix(self) -> Quantisation:
        """The recipe for the request's limit."""
        config, request = self._checkpoint.config, self._request
        model = self._checkpoint.model
        found = sensitivities(model, self._pack, self._sequences, self._reference, self._on_step)
        if request.max_kl is not None:
            bits, kl = within_kl(config, found, request.max_kl, self._measure)
        else:
            bits = self._within_megabytes(found)
            kl = self._measure(bits)
        return self._quantisation(bits, found, kl)

    def _within_megabytes(self, found: Sensitivities) -> dict[str, int]:
        config, limit = self._checkpoint.config, self._request.max_mb or 0.0
        smallest = smallest_recipe(found)
        quantisation = self._quantisation(smallest, found, kl=0.0)
        model = _stamped(self.graph(smallest), self._checkpoint, self._request, quantisation, self._sampling)
        size = model.ByteSize() + EVIDENCE_BYTES
        if size > limit * MB:
            raise EdgeGPTError(
                f"no mix of precisions fits into {limit:g} MB: the smallest file of this model has "
                f"{size / MB:.2f} MB"
            )
        return within_bytes(config, found, int(limit * MB) - size + weight_bytes(config, smallest))

    def _measure(self, bits: Recipe) -> float:
        """Mean KL(PyTorch || file), in nats, of the graph as the robot runs it."""
        self._on_step("measuring a mix")
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
