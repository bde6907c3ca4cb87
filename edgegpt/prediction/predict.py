"""Predict what a model costs on a board before it is built, from config, recipe and board profile.

    times       `edgegpt.prediction.cost_model` adds up the nodes and the calls of a request
    load        imports + a session by layers, vocabulary and MB of weights + the calls of the warm-up
    peak RSS    imports + the same terms for memory + one KV cache
    file        weights and scales exactly; estimates of verification results, graph and tokenizer

benchmarks/prediction.py measures the errors.
"""

from dataclasses import dataclass
from math import log2
from typing import Final

from edgegpt import contract
from edgegpt.accounting import kv_cache_bytes
from edgegpt.config import ModelConfig
from edgegpt.errors import ConfigError
from edgegpt.measure import this_machine
from edgegpt.prediction.cost_model import CallCosts, ModelWork, OpCosts
from edgegpt.prediction.target import PerMb, Target, TargetMachine
from edgegpt.quantization import recipe, weight_bytes

# Bytes of an engine file without its weights, an upper estimate: config and digests, the verification
# results that the export adds, names and shapes of a layer's nodes and its bits in the recipe.
_FILE_BYTES: Final = 1_000 + contract.EVIDENCE_BYTES
_LAYER_BYTES: Final = 2_900
# Bytes of a token of a byte-level tokenizer with its merge, and again for each doubling of the vocabulary,
# whose later tokens are longer: counted in tokenizers of 512 to 16,384 tokens trained on Python's standard
# library, 2026-11-30.
_TOKEN_BYTES: Final = 2


@dataclass(frozen=True)
class Prediction:
    """Predicted costs of one model on one board.

    Attributes:
        prompt_tokens: length of the prompt of ttft_ms.
        cached_tokens: tokens in the cache before the decode step of token_ms.
        ttft_ms: time to first token (TTFT), from prompt ids to the first new id, median.
        token_ms: time per output token (TPOT), one decode step, median.
        load_ms: from the start of the imports to the first request.
        peak_rss_mb: peak resident memory of the process.
        artifact_mb: the file with its external data; see `artifact_mb` below.
        kv_cache_mb: size of one KV cache.
    """

    prompt_tokens: int
    cached_tokens: int
    ttft_ms: float
    token_ms: float
    load_ms: float
    peak_rss_mb: float
    artifact_mb: float
    kv_cache_mb: float


class Predictor:
    """Predictions for one board, whose tables are sorted once for thousands of models."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.ops = OpCosts(
            target.products, target.streaming, target.cache_streaming, target.attention, target.nodes
        )
        self.calls = CallCosts(self.ops, target.calls)

    def predict(
        self,
        config: ModelConfig,
        precision: str,
        *,
        prompt_tokens: int | None = None,
        cached_tokens: int | None = None,
        capacity: int | None = None,
    ) -> Prediction:
        """Predict all costs of one model.

        Args:
            config: the model.
            precision: fp32, int8 or int4.
            prompt_tokens: length of the prompt; default 32, or capacity - 1 if that is less.
            cached_tokens: tokens in the cache before the decode step; default half the capacity.
            capacity: tokens that the cache holds, at most block_size, which is the default.

        Raises:
            ConfigError: prompt_tokens or cached_tokens leaves no room for a token.
        """
        name = "block_size" if capacity is None else "capacity"
        capacity = config.block_size if capacity is None else capacity
        if cached_tokens is None:
            cached_tokens = capacity // 2
        if not 0 <= cached_tokens < capacity:
            raise ConfigError(
                f"cached_tokens must be within 0 and {name} {capacity} - 1, got {cached_tokens}"
            )
        if prompt_tokens is None:
            prompt_tokens = max(1, min(32, capacity - 1))
        elif not 1 <= prompt_tokens < max(2, capacity):
            raise ConfigError(
                f"prompt_tokens must be within 1 and {name} {capacity} - 1, got {prompt_tokens}"
            )
        bits = recipe(config, precision)
        work, stored = ModelWork.of(config, bits), weight_bytes(config, bits)
        weights_mb = stored / 1e6
        return Prediction(
            prompt_tokens=prompt_tokens,
            cached_tokens=cached_tokens,
            ttft_ms=self.calls.first_token_us(work, prompt_tokens) / 1e3,
            token_ms=self.calls.token_us(work, cached_tokens) / 1e3,
            load_ms=self._load_ms(work, precision, weights_mb),
            peak_rss_mb=self._peak_rss_mb(config, precision, weights_mb, capacity),
            artifact_mb=artifact_mb(config, stored),
            kv_cache_mb=kv_cache_bytes(config, capacity) / 1e6,
        )

    def _load_ms(self, work: ModelWork, precision: str, weights_mb: float) -> float:
        load, config = self.target.load, work.config
        own = load.base_ms + load.ms_per_layer * config.n_layer
        own += load.ms_per_1000_tokens * config.vocab_size / 1e3
        own += _per_mb(load.ms_per_mb, precision, weights_mb) * weights_mb
        return load.import_ms + own + self.calls.warm_up_us(work) / 1e3

    def _peak_rss_mb(self, config: ModelConfig, precision: str, weights_mb: float, capacity: int) -> float:
        memory = self.target.memory
        own = memory.base_mb + memory.mb_per_layer * config.n_layer
        own += memory.mb_per_1000_tokens * config.vocab_size / 1e3
        own += _per_mb(memory.mb_per_mb, precision, weights_mb) * weights_mb
        return memory.import_mb + own + kv_cache_bytes(config, capacity) / 1e6


def artifact_mb(config: ModelConfig, weight_bytes: int) -> float:
    """Estimate the size of an engine file with its external data, from its bytes of weights.

    An export with a named precision is hardly ever larger.
    """
    tokens = config.vocab_size
    tokenizer = _TOKEN_BYTES * tokens * (2 + log2(tokens))
    return (weight_bytes + _FILE_BYTES + _LAYER_BYTES * config.n_layer + tokenizer) / 1e6


def caveats(target: Target) -> tuple[str, ...]:
    """Return warnings about a profile's predictions here, a sentence each without a full stop."""
    here = TargetMachine.of(this_machine())
    found = []
    if differences := target.machine.differences(here):
        found.append(
            f"the profile {target.name!r} is of another machine ({'; '.join(differences)}), so the "
            "predictions are for that one"
        )
    theirs, ours = (one.versions.get("onnxruntime") for one in (target.machine, here))
    if not differences and theirs != ours:
        found.append(
            f"the profile was measured with onnxruntime {theirs}, this is {ours}; run `edgegpt profile` again"
        )
    if target.noise:
        found.append(f"the profile was measured on a busy machine: {'; '.join(target.noise)}")
    return tuple(found)


def is_here(target: Target) -> bool:
    """Return whether this is the machine that was profiled."""
    return not target.machine.differences(TargetMachine.of(this_machine()))


def _per_mb(per_mb: PerMb, precision: str, weights_mb: float) -> float:
    form = per_mb.beside if 1e6 * weights_mb > contract.EXTERNAL_DATA_BYTES else per_mb.inside
    return float(getattr(form, precision))
