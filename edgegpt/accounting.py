"""Count parameters, FLOPs and bytes of a model from its config alone: no torch, no onnx.

Symbols: D n_embd, L n_layer, V vocab_size, S block_size. Formulas:
    parameters   Radford et al. 2019 (GPT-2): 12 D^2 + 10 D a block, 3 D more with a Q/K/V bias.
    FLOPs        a multiply and an add are two, so a matrix of N weights costs 2 N a token; attention
                 costs 4 D a layer for every position it looks at (Kaplan et al. 2020, section 2.1;
                 Chowdhery et al. 2022, appendix B). Only matrix products are counted; norms, GELU,
                 softmax and additions are small by comparison.
    cache        a key and a value of n_kv_head * head_dim per layer and token (Pope et al. 2022).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from edgegpt.config import ModelConfig
from edgegpt.errors import ConfigError
from edgegpt.quantization import FLOAT, is_padded, matrix_bytes

FLOAT_BYTES: Final = 4  # activations and norms are float32 at every precision of the weights


@dataclass(frozen=True)
class WeightBytes:
    """Exact bytes of the weights in each precision; file headers and the graph are not included.

    int8 and int4 follow `edgegpt.quantization.recipe`, scales included; norms and biases stay
    float32. A checkpoint can be fp16, a file cannot.
    """

    fp32: int
    fp16: int
    int8: int
    int4: int


@dataclass(frozen=True)
class Component:
    """One row of the account. FLOPs are for one token, summed over the layers."""

    name: str
    parameters: int
    weight_bytes: WeightBytes
    prefill_flops: int
    decode_flops: int


@dataclass(frozen=True)
class Account:
    """All sizes that follow from a config, for one request (a batch of one)."""

    components: tuple[Component, ...]
    total: Component
    prompt_tokens: int  # prefill_flops is the mean over a prompt of this many tokens
    cached_tokens: int  # decode_flops is for one token after this many
    kv_bytes_per_token: int
    kv_capacity: int  # tokens
    kv_bytes: int  # size of the whole cache, allocated once
    chunk_tokens: int
    activation_bytes: int  # peak while the last chunk of chunk_tokens fills the context


def parameter_count(config: ModelConfig) -> int:
    """Return the number of parameters; a tied head counts once."""
    return account(config).total.parameters


def kv_cache_bytes(config: ModelConfig, tokens: int, precision: str = "fp32") -> int:
    """Return the bytes of the keys and values of `tokens` tokens, stored as fp32 or int8."""
    each = {"fp32": FLOAT_BYTES, "int8": 1}[precision]
    return 2 * config.n_layer * config.n_kv_head * config.head_dim * each * tokens


def activation_peak_bytes(config: ModelConfig, new_tokens: int, cached_tokens: int = 0) -> int:
    """Estimate the peak bytes of float32 activations while `new_tokens` go through the model.

    Counted are the tensors that one step needs together: the residual stream and, in attention, Q/K/V
    with the scores over all positions and the result; in the feed-forward network, its inner layer
    before and after GELU; at the end, the logits of every new token. Not counted are the cache, the
    weights, scratch space of kernels and an allocator's rounding. A runtime that fuses softmax into
    attention, or GELU into the product before it, needs less.
    """
    t, d = new_tokens, config.n_embd
    residual = t * d
    attention = residual + 3 * t * d + config.n_head * t * (cached_tokens + t) + t * d
    mlp = residual + 2 * 4 * t * d
    head = residual + t * config.vocab_size
    return FLOAT_BYTES * max(attention, mlp, head)


def account(
    config: ModelConfig,
    *,
    prompt_tokens: int | None = None,
    cached_tokens: int | None = None,
    kv_capacity: int | None = None,
    chunk_tokens: int = 64,
) -> Account:
    """Return the whole account of a config.

    Args:
        config: the model.
        prompt_tokens: length of the prompt whose prefill is counted, with the whole square of attention
            scores; 32 unless given, or block_size where that is less.
        cached_tokens: tokens before the one whose decode is counted; the last of the context,
            which costs most, unless given.
        kv_capacity: tokens that the cache has room for; block_size unless given.
        chunk_tokens: prefill chunk of the engine, at most block_size.

    Raises:
        ConfigError: prompt_tokens, cached_tokens or kv_capacity is above block_size.
    """
    given = {"prompt_tokens": prompt_tokens, "cached_tokens": cached_tokens, "kv_capacity": kv_capacity}
    for name, tokens in given.items():
        if tokens is not None and tokens > config.block_size:
            raise ConfigError(f"{name} must be within block_size {config.block_size}, got {tokens}")
    prompt_tokens = min(32, config.block_size) if prompt_tokens is None else prompt_tokens
    chunk_tokens = min(chunk_tokens, config.block_size)
    cached_tokens = config.block_size - 1 if cached_tokens is None else cached_tokens
    kv_capacity = config.block_size if kv_capacity is None else kv_capacity

    d, v, layers = config.n_embd, config.vocab_size, config.n_layer
    components = (
        _component("token embedding", tables=[(v, d)]),
        _component("position embedding", tables=[(config.block_size, d)]),
        _component(
            "attention",
            [(3 * d, d), (d, d)],
            vectors=4 * d if config.qkv_bias else d,
            repeat=layers,
            prefill_extra=4 * d * prompt_tokens,
            decode_extra=4 * d * (cached_tokens + 1),
        ),
        _component("mlp", [(4 * d, d), (d, 4 * d)], vectors=5 * d, repeat=layers),
        _component("norms", vectors=4 * d * layers + 2 * d),
        _tied_head(config) if config.tie_embeddings else _component("head", [(v, d)], least_bits=8),
    )
    return Account(
        components=components,
        total=_total(components),
        prompt_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
        kv_bytes_per_token=kv_cache_bytes(config, 1),
        kv_capacity=kv_capacity,
        kv_bytes=kv_cache_bytes(config, kv_capacity),
        chunk_tokens=chunk_tokens,
        activation_bytes=activation_peak_bytes(config, chunk_tokens, config.block_size - chunk_tokens),
    )


def _component(
    name: str,
    matrices: Sequence[tuple[int, int]] = (),
    *,
    tables: Sequence[tuple[int, int]] = (),
    vectors: int = 0,
    least_bits: int = 4,
    repeat: int = 1,
    prefill_extra: int = 0,
    decode_extra: int = 0,
) -> Component:
    """Count a component: `matrices` (out, in) are multiplied, `tables` looked up, `vectors` the rest."""
    weights = sum(rows * columns for rows, columns in matrices)
    parameters = repeat * (weights + vectors + sum(rows * columns for rows, columns in tables))

    def stored(bits: int) -> int:
        of_matrices = sum(matrix_bytes(*shape, max(bits, least_bits)) for shape in matrices)
        of_tables = sum(matrix_bytes(*shape, FLOAT if is_padded(shape[1]) else 8) for shape in tables)
        return repeat * (of_matrices + of_tables + vectors * FLOAT_BYTES)

    return Component(
        name=name,
        parameters=parameters,
        weight_bytes=WeightBytes(4 * parameters, 2 * parameters, stored(8), stored(4)),
        prefill_flops=repeat * (2 * weights + prefill_extra),
        decode_flops=repeat * (2 * weights + decode_extra),
    )


def _tied_head(config: ModelConfig) -> Component:
    """Count a head that shares the weights of the token embedding: no bytes, the same FLOPs."""
    flops = 2 * config.vocab_size * config.n_embd
    return Component("head (tied)", 0, WeightBytes(0, 0, 0, 0), flops, flops)


def _total(components: Sequence[Component]) -> Component:
    sizes = [c.weight_bytes for c in components]
    return Component(
        name="total",
        parameters=sum(c.parameters for c in components),
        weight_bytes=WeightBytes(
            fp32=sum(s.fp32 for s in sizes),
            fp16=sum(s.fp16 for s in sizes),
            int8=sum(s.int8 for s in sizes),
            int4=sum(s.int4 for s in sizes),
        ),
        prefill_flops=sum(c.prefill_flops for c in components),
        decode_flops=sum(c.decode_flops for c in components),
    )
