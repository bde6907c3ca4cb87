"""edgegpt.accounting: what a config says is what the module holds and does."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TINY, Refused
from hypothesis import given, settings, strategies as st
from torch.utils.flop_counter import FlopCounterMode

from edgegpt.accounting import WeightBytes, account, activation_peak_bytes, kv_cache_bytes, parameter_count
from edgegpt.config import ModelConfig
from edgegpt.errors import ConfigError
from edgegpt.model import GPT
from edgegpt.quantization import PRECISIONS, recipe, weight_bytes, weight_bytes_per_token
from edgegpt.runtime import PREFILL_CHUNK

MODELS = Path(__file__).parent.parent / "configs" / "models"


@st.composite
def configs(draw: st.DrawFn) -> ModelConfig:
    n_head = draw(st.integers(1, 4))
    return ModelConfig(
        vocab_size=draw(st.integers(1, 70)),
        block_size=draw(st.integers(1, 40)),
        n_layer=draw(st.integers(1, 3)),
        n_head=n_head,
        n_embd=n_head * draw(st.integers(1, 12)),
        qkv_bias=draw(st.booleans()),
        tie_embeddings=draw(st.booleans()),
    )


def shape(n_layer: int, n_head: int, n_embd: int, vocab: int = 1, block: int = 1, **more: Any) -> ModelConfig:
    return ModelConfig(
        vocab_size=vocab, block_size=block, n_layer=n_layer, n_head=n_head, n_embd=n_embd, **more
    )


@pytest.mark.parametrize(
    ("config", "count"),
    [
        (shape(1, 12, 768), 7_085_568),
        (shape(1, 12, 768, qkv_bias=True), 7_087_872),
        (shape(6, 8, 256), 4_733_952),
    ],
)
def test_the_blocks_of_a_known_shape_have_exactly_this_many_parameters(
    config: ModelConfig, count: int
) -> None:
    per_block = parameter_count(replace(config, n_layer=2)) - parameter_count(replace(config, n_layer=1))
    assert config.n_layer * per_block == count
    assert sum(p.numel() for p in GPT(config).blocks.parameters()) == count


def test_a_tiny_untied_model_and_gpt2_small_have_exactly_this_many_parameters() -> None:
    assert parameter_count(shape(2, 4, 32, vocab=100, block=16)) == 32_192
    assert parameter_count(ModelConfig.from_yaml(MODELS / "gpt2.yaml")) == 124_439_808


@given(configs())
def test_every_count_is_the_modules_own(config: ModelConfig) -> None:
    parts = {"wte": "token embedding", "wpe": "position embedding", "attn": "attention", "head": "head"}
    parts |= {"mlp": "mlp", "norm_f": "norms", "norm_1": "norms", "norm_2": "norms"}
    counted = dict.fromkeys(parts.values(), 0)
    shapes = {}
    for name, parameter in GPT(config).named_parameters():
        (part,) = parts.keys() & name.split(".")
        counted[parts[part]] += parameter.numel()
        shapes[name] = tuple(parameter.shape)
    assert list(config.parameter_shapes().items()) == list(shapes.items())  # in the module's order
    assert parameter_count(config) == sum(counted.values())
    assert {c.name.removesuffix(" (tied)"): c.parameters for c in account(config).components} == counted


@given(configs())
def test_the_total_is_the_sum_of_the_components_and_of_the_recipe(config: ModelConfig) -> None:
    result = account(config)
    for field in ("parameters", "prefill_flops", "decode_flops"):
        assert getattr(result.total, field) == sum(getattr(c, field) for c in result.components)
    for precision in ("fp32", "fp16", "int8", "int4"):
        whole = getattr(result.total.weight_bytes, precision)
        assert whole == sum(getattr(c.weight_bytes, precision) for c in result.components)
        if precision in PRECISIONS:
            assert whole == weight_bytes(config, recipe(config, precision))
    assert result.total.weight_bytes.fp32 == 4 * parameter_count(config)
    assert result.total.weight_bytes.fp16 == 2 * parameter_count(config)


def bytes_of(n_embd: int, **changes: Any) -> dict[str, WeightBytes]:
    """Return the bytes of each component of a model of one block, 10 tokens and 4 positions."""
    config = shape(1, 2, n_embd, vocab=10, block=4, **changes)
    return {part.name: part.weight_bytes for part in account(config).components}


def test_quantised_rows_are_whole_blocks_with_a_scale() -> None:
    # Width 192 is three blocks of 64; width 20 one block of 32, twelve of them empty.
    attention = bytes_of(192)["attention"]
    assert attention.int8 == 4 * 192 * 3 * (64 + 4) + 4 * 192
    assert attention.int4 == 4 * 192 * 3 * (32 + 4) + 4 * 192
    assert bytes_of(20)["attention"].int8 == 4 * 20 * (32 + 4) + 4 * 20


def test_embeddings_and_the_head_have_eight_bits_at_least() -> None:
    rows = bytes_of(192)
    for name, count in (("token embedding", 10), ("position embedding", 4), ("head", 10)):
        assert rows[name].int4 == rows[name].int8 == count * 3 * (64 + 4)
    assert rows["norms"].int4 == rows["norms"].fp32
    tied = bytes_of(192, tie_embeddings=True)["head (tied)"]
    assert tied.fp32 == tied.int4 == 0
    undivided = bytes_of(20)["token embedding"]
    assert undivided.int4 == undivided.fp32


@pytest.mark.parametrize(("tied", "unread_rows"), [(True, 15), (False, 15 + 99)])
def test_a_token_reads_all_weights_but_other_rows_of_the_tables(tied: bool, unread_rows: int) -> None:
    config = shape(2, 2, 32, vocab=100, block=16, tie_embeddings=tied)
    read = weight_bytes_per_token(config, recipe(config, "fp32"))
    assert read == 4 * (parameter_count(config) - unread_rows * 32)


def test_the_cache_is_as_large_as_the_modules() -> None:
    _, present = GPT(TINY).forward_cached(
        torch.zeros(1, 7, dtype=torch.long), torch.arange(7)[None], GPT(TINY).empty_cache(1)
    )
    assert kv_cache_bytes(TINY, 7) == sum(t.numel() * t.element_size() for pair in present for t in pair)
    result = account(TINY, kv_capacity=7)
    assert (result.kv_capacity, result.kv_bytes) == (7, 7 * result.kv_bytes_per_token)
    assert account(TINY).kv_capacity == TINY.block_size


def flops(model: GPT, tokens: int, cached: int) -> int:
    """FLOPs of `tokens` new tokens after `cached` ones, as PyTorch counts them."""
    ids = torch.zeros(1, cached + tokens, dtype=torch.long)
    positions = torch.arange(cached + tokens)[None]
    with torch.no_grad():
        _, past = model.forward_cached(ids[:, :cached], positions[:, :cached], model.empty_cache(1))
        with FlopCounterMode(display=False) as counter:
            model.forward_cached(ids[:, cached:], positions[:, cached:], past)
    return int(counter.get_total_flops())


@settings(max_examples=25)  # each runs a model twice
@given(configs(), st.data())
def test_flops_are_those_that_pytorch_counts(config: ModelConfig, data: st.DataObject) -> None:
    model = GPT(config).eval()
    prompt = data.draw(st.integers(1, config.block_size), label="prompt")
    cached = data.draw(st.integers(0, config.block_size - 1), label="cached")
    result = account(config, prompt_tokens=prompt, cached_tokens=cached)
    assert result.total.prefill_flops * prompt == flops(model, prompt, 0)
    assert result.total.decode_flops == flops(model, 1, cached)


def test_what_is_not_told_is_the_end_of_the_context_and_the_engines_chunk() -> None:
    whole = account(TINY, cached_tokens=TINY.block_size - 1).total.decode_flops
    assert account(TINY).total.decode_flops == whole > account(TINY, cached_tokens=0).total.decode_flops
    assert account(ModelConfig.from_yaml(MODELS / "nano.yaml")).chunk_tokens == PREFILL_CHUNK


def test_the_activation_peak_is_that_of_the_widest_step() -> None:
    logits = shape(1, 4, 32, vocab=5000, block=512)
    assert activation_peak_bytes(logits, 8) == 4 * 8 * (32 + 5000)
    inner = replace(logits, vocab_size=10)
    assert activation_peak_bytes(inner, 8) == 4 * 8 * (32 + 2 * 128)
    scores = 4 * 8 * (400 + 8)  # n_head x new x all
    assert activation_peak_bytes(inner, 8, 400) == 4 * (8 * (32 + 96 + 32) + scores)


def test_prompt_and_chunk_never_exceed_the_context(refused: Refused) -> None:
    result = account(TINY, chunk_tokens=10_000)
    assert result.prompt_tokens == min(32, TINY.block_size)
    assert result.chunk_tokens == TINY.block_size
    with refused(ConfigError, "prompt_tokens", TINY.block_size + 1, TINY.block_size):
        account(TINY, prompt_tokens=TINY.block_size + 1)


def test_the_largest_model_that_a_config_can_ask_for_is_counted_at_once() -> None:
    assert parameter_count(replace(TINY, n_layer=1024, n_embd=2**24)) > 10**18
