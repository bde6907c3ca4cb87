"""From a checkpoint and a request to the model in memory: what is quantised, and how, is decided here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from onnx import ModelProto

from edgegpt.contract import EVIDENCE_BYTES, PORTABLE
from edgegpt.errors import EdgeGPTError
from edgegpt.model.checkpoint import Checkpoint
from edgegpt.quantization import AUTO, Recipe, weight_bytes
from edgegpt.runtime.ort_backend import open_session
from edgegpt_export.bit_allocation import Quantisation, preset
from edgegpt_export.cache_scales import cache_scales
from edgegpt_export.calibration import Sequences, calibration_sequences
from edgegpt_export.compare import mean_kl
from edgegpt_export.evidence import three_digits
from edgegpt_export.examples import Examples
from edgegpt_export.graph import build_engine_graph, packer
from edgegpt_export.mix import smallest_recipe, within_bytes, within_kl
from edgegpt_export.portable import build_portable_graph
from edgegpt_export.request import MB, Request
from edgegpt_export.runner import GrowingCache, Logits
from edgegpt_export.sensitivity import Sensitivities, sensitivities, torch_logits
from edgegpt_export.stamp import add_metadata, metadata

OnStep = Callable[[str], None]


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
