"""edgegpt.model: the PyTorch GPT, against its definition and against transformers' GPT-2."""

import math
import shutil
import sysconfig
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import TINY, random_gpt
from gpt2_twin import gpt2_twin
from torch import Tensor

from edgegpt.config.model import ModelConfig
from edgegpt.model.gpt import GPT, CausalSelfAttention


def some_ids(batch: int, length: int, seed: int = 1) -> Tensor:
    return torch.randint(0, TINY.vocab_size, (batch, length), generator=torch.Generator().manual_seed(seed))


def variant(**changes: object) -> ModelConfig:
    return replace(TINY, **changes)


# Shape and causality


@pytest.mark.parametrize("changed", [0, 1, 10, TINY.block_size - 1])
@torch.no_grad()
def test_a_changed_token_reaches_every_later_logit_and_no_earlier_one(tiny_gpt: GPT, changed: int) -> None:
    ids = some_ids(1, TINY.block_size)
    other = ids.clone()
    other[0, changed] = (other[0, changed] + 1) % TINY.vocab_size
    differ = (tiny_gpt(ids) != tiny_gpt(other)).any(dim=-1)[0]
    assert differ.tolist() == [False] * changed + [True] * (TINY.block_size - changed)


@torch.no_grad()
def test_a_batch_gives_what_its_rows_give_alone(tiny_gpt: GPT) -> None:
    ids = some_ids(4, 20)
    alone = torch.cat([tiny_gpt(row[None]) for row in ids])
    torch.testing.assert_close(tiny_gpt(ids), alone, rtol=0, atol=1e-5)


# Parameters


def test_every_block_has_its_own_parameters() -> None:
    model = GPT(variant(n_layer=4))
    parameters = [p for block in model.blocks for p in block.parameters()]
    assert len({p.data_ptr() for p in parameters}) == len(parameters)
    for name in ("attn.qkv", "attn.proj", "mlp.fc", "mlp.proj"):
        first_rows = {tuple(block.get_parameter(f"{name}.weight")[0].tolist()) for block in model.blocks}
        assert len(first_rows) == 4


def test_output_projections_start_smaller_by_the_root_of_the_residual_additions() -> None:
    torch.manual_seed(0)
    model = GPT(variant(n_layer=8, n_embd=128))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name
        else:
            expected = 0.02 / math.sqrt(2 * 8) if name.endswith("proj.weight") else 0.02
            assert parameter.std().item() == pytest.approx(expected, rel=0.05), name
            assert parameter.mean().item() == pytest.approx(0, abs=0.05 * expected + 2e-4), name


def test_a_fresh_model_finds_every_token_equally_likely() -> None:
    torch.manual_seed(0)
    ids = some_ids(4, TINY.block_size)
    loss = torch.nn.functional.cross_entropy(GPT(TINY).eval()(ids).flatten(0, 1), ids.roll(-1, 1).flatten())
    assert loss.item() == pytest.approx(math.log(TINY.vocab_size), abs=0.1)


# Dropout

BLOCKS = [f"blocks.{i}" for i in range(TINY.n_layer)]
DROPOUTS = {
    "embeddings": ["drop"],
    "attention weights": [f"{block}.attn.drop" for block in BLOCKS],
    "sublayer outputs": [f"{block}.drop" for block in BLOCKS],
}


def with_dropout(**p: float) -> GPT:
    """Return a model in train mode with the dropout of each place of DROPOUTS, 0 where none is given."""
    model = random_gpt(variant(dropout=0.5)).train()
    found = {name for name, part in model.named_modules() if isinstance(part, torch.nn.Dropout)}
    assert found == {name for names in DROPOUTS.values() for name in names}
    for place, names in DROPOUTS.items():
        for name in names:
            dropout = model.get_submodule(name)
            assert isinstance(dropout, torch.nn.Dropout)
            assert dropout.p == 0.5
            dropout.p = p.get(place, 0.0)
    return model


@pytest.mark.parametrize("place", DROPOUTS)
def test_dropout_is_active_in_train_mode_in(place: str) -> None:
    model = with_dropout(**{place: 0.5})
    ids = some_ids(1, 12)
    assert not torch.equal(model(ids), model(ids))
    model.eval()
    assert torch.equal(model(ids), model(ids))


def test_there_is_no_dropout_in_any_fourth_place() -> None:
    model = with_dropout()
    ids = some_ids(1, 12)
    assert torch.equal(model(ids), model(ids))
    torch.testing.assert_close(model(ids), model.eval()(ids), rtol=0, atol=1e-6)


def test_attention_dropout_falls_on_the_weights_after_softmax() -> None:
    """With one token the only weight is 1: kept it is 1 / (1 - p), dropped it is 0."""
    attention = CausalSelfAttention(variant(n_head=1, dropout=0.5)).train()
    torch.nn.init.zeros_(attention.proj.bias)
    x = torch.randn(1, 1, TINY.n_embd)
    mask = torch.ones(1, 1, dtype=torch.bool)
    full, _ = attention.eval()(x, mask, None)
    attention.train()
    seen = set()
    for _ in range(40):
        y, _ = attention(x, mask, None)
        seen.add("dropped" if not y.any() else "kept" if torch.allclose(y, 2 * full, atol=1e-6) else "else")
    assert seen == {"dropped", "kept"}


def test_sublayer_dropout_falls_before_the_addition() -> None:
    """Dropped outputs leave the residual stream as it was, never zero."""
    model = with_dropout(**{"sublayer outputs": 1.0})
    ids = some_ids(1, 6)
    x = model.wte(ids) + model.wpe(torch.arange(6))
    assert torch.equal(model(ids), model.head(model.norm_f(x)))


# The same weights in transformers


@pytest.mark.parametrize("gelu", ["tanh", "erf"])
@pytest.mark.parametrize("qkv_bias", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_logits_equal_those_of_transformers_with_the_same_weights(
    gelu: str, qkv_bias: bool, tied: bool
) -> None:
    config = variant(gelu=gelu, qkv_bias=qkv_bias, tie_embeddings=tied, n_layer=3, n_head=4)
    model, other = random_gpt(config), random_gpt(replace(config, gelu="erf" if gelu == "tanh" else "tanh"))
    ids = some_ids(2, TINY.block_size)
    with torch.no_grad():
        mine, theirs, with_other_gelu = model(ids), gpt2_twin(model)(ids).logits, other(ids)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=2e-5)
    # The comparison means something: logits are large and the two GELUs differ by more.
    assert theirs.abs().max() > 1
    assert (mine - with_other_gelu).abs().max() > 2e-5


# With a cache


@pytest.mark.parametrize(
    "chunks",
    [[TINY.block_size], [1] * TINY.block_size, [7, 1, 16, 1, 1, 22], [TINY.block_size - 1, 1]],
    ids=["whole", "stepwise", "chunked", "all but one"],
)
@torch.no_grad()
def test_a_cache_gives_what_a_full_pass_gives(tiny_gpt: GPT, chunks: list[int]) -> None:
    ids = some_ids(2, TINY.block_size)
    positions = torch.arange(TINY.block_size).expand(2, -1)
    past, logits = tiny_gpt.empty_cache(2), []
    for new, at in zip(ids.split(chunks, dim=1), positions.split(chunks, dim=1), strict=True):
        part, past = tiny_gpt.forward_cached(new, at, past)
        logits.append(part)
    assert past[0][0].shape == (2, TINY.n_kv_head, TINY.block_size, TINY.head_dim)
    torch.testing.assert_close(torch.cat(logits, dim=1), tiny_gpt(ids), rtol=0, atol=1e-5)


# Training


def gradients(model: GPT, ids: Tensor) -> list[Tensor]:
    model.zero_grad()
    torch.manual_seed(3)  # the same dropout
    logits = model(ids)
    torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()
    grads = [p.grad for p in model.parameters()]
    return [g for g in grads if g is not None]


def test_gradient_checkpointing_computes_blocks_again_and_gives_the_same_gradients() -> None:
    model = random_gpt(variant(dropout=0.3)).train()
    calls: list[int] = []
    model.get_submodule("blocks.0.mlp").register_forward_hook(lambda *_: calls.append(1))
    ids = some_ids(2, 16)
    plain = gradients(model, ids)
    assert len(calls) == 1
    model.gradient_checkpointing = True
    checkpointed = gradients(model, ids)
    assert len(calls) == 1 + 2
    assert len(plain) == len(checkpointed) == len(list(model.parameters()))
    for a, b in zip(plain, checkpointed, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)


def test_every_parameter_gets_a_gradient() -> None:
    model = random_gpt(TINY).train()
    assert all(g.abs().sum() > 0 for g in gradients(model, torch.arange(TINY.block_size)[None]))


def test_a_few_steps_learn_a_sentence_by_heart() -> None:
    torch.manual_seed(0)
    model = GPT(variant(dropout=0.0)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    ids = some_ids(1, 24)
    for _ in range(60):
        gradients(model, ids)
        optimizer.step()
    with torch.no_grad():
        assert torch.equal(model.eval()(ids)[0, :-1].argmax(-1), ids[0, 1:])


has_compiler = shutil.which("g++") and Path(sysconfig.get_path("include"), "Python.h").is_file()
needs_compiler = pytest.mark.skipif(not has_compiler, reason="torch.compile needs g++ and Python.h")


@pytest.mark.parametrize(
    "backend", ["aot_eager", pytest.param("inductor", marks=[pytest.mark.slow, needs_compiler])]
)
def test_the_model_is_one_graph_to_torch_compile_with_the_same_logits(backend: str) -> None:
    model = random_gpt(TINY)
    torch._dynamo.reset()
    compiled: Callable[[Tensor], Tensor] = torch.compile(model, backend=backend, fullgraph=True)
    for length in (5, 9, 17):
        ids = some_ids(2, length)
        with torch.no_grad():
            torch.testing.assert_close(compiled(ids), model(ids), rtol=0, atol=1e-5)
