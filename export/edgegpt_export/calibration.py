"""Measurements in PyTorch that decide a quantisation, on the model's own text or a user's examples.

Calibration text, the scales of an int8 cache, and the effect of quantising each matrix alone.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from edgegpt.errors import CheckpointError
from edgegpt.model import GPT, Checkpoint
from edgegpt.quantization import FLOAT, matrices, possible_bits
from edgegpt_export.bit_allocation import Sensitivities
from edgegpt_export.block_quant import dequantise
from edgegpt_export.graph import CacheScales, Pack
from edgegpt_export.request import Examples, OnStep
from edgegpt_export.runner import Logits, mean_kl

Sequences = Sequence[NDArray[np.int64]]  # each (L,)

_SEED: Final = 0
_TEXTS: Final = 8
_TEXT_TOKENS: Final = 128
_EXAMPLES: Final = 64
_LARGEST: Final = 127
_SMALLEST_SCALE: Final = 1e-6  # scale of a channel that is always 0


def calibration_sequences(checkpoint: Checkpoint, examples: Examples | None) -> Sequences:
    """Return token sequences (L,) of at least two tokens each that fit into the context.

    They are the first 64 of a user's examples; without any, 8 texts that the model generates at
    temperature 1, which resemble its real input more than random tokens.

    Raises:
        CheckpointError: without examples, the model's logits are NaN or infinite.
    """
    if examples is None:
        return list(_own_texts(checkpoint))
    tokenizer = checkpoint.tokenizer
    return [
        np.array([*tokenizer.encode_prompt(pair.prompt), *tokenizer.encode(pair.completion)], np.int64)
        for pair in examples.pairs[:_EXAMPLES]
    ]


@torch.inference_mode()
def _own_texts(checkpoint: Checkpoint) -> NDArray[np.int64]:
    """Draw (texts, tokens) at temperature 1, each from a random first token."""
    model, n_valid = checkpoint.model, checkpoint.tokenizer.vocab_size
    generator = torch.Generator().manual_seed(_SEED)
    ids = torch.randint(n_valid, (_TEXTS, 1), generator=generator)
    texts, cache = [ids], model.empty_cache(_TEXTS)
    with eval_mode(model):
        for position in range(min(_TEXT_TOKENS, model.config.block_size) - 1):
            logits, cache = model.forward_cached(ids, torch.full((_TEXTS, 1), position), cache)
            if not logits.isfinite().all():
                raise CheckpointError(
                    f"the model's logits are NaN or infinite in PyTorch at position {position}; "
                    "its weights overflow float32, train it again"
                )
            ids = torch.multinomial(logits[:, -1, :n_valid].softmax(-1), 1, generator=generator)
            texts.append(ids)
    whole: NDArray[np.int64] = torch.cat(texts, dim=1).numpy()
    return whole


@torch.inference_mode()
def cache_scales(model: GPT, sequences: Sequences) -> CacheScales:
    """Return scales of keys and values, a pair for each layer, float32 (1, n_kv_head, 1, head_dim).

    A channel's largest magnitude becomes 127: over the sequences, and over random tokens that fill
    the context, so that every position is covered. Larger values are clipped at run time.
    """
    config = model.config
    random = np.random.default_rng(_SEED).integers(config.vocab_size, size=config.block_size)
    largest: list[tuple[NDArray[np.float32], NDArray[np.float32]]] = []
    with eval_mode(model):
        for ids in (random, *sequences):
            batch, positions = torch.from_numpy(ids)[None], torch.arange(ids.size)[None]
            _, present = model.forward_cached(batch, positions, model.empty_cache(1))
            found = [
                tuple(x.abs().amax(dim=(0, 2), keepdim=True).numpy() for x in layer) for layer in present
            ]
            largest = [
                (np.maximum(k, new_k), np.maximum(v, new_v))
                for (k, v), (new_k, new_v) in zip(largest or found, found, strict=True)
            ]
    return [(_scale(k), _scale(v)) for k, v in largest]


def _scale(largest: NDArray[np.float32]) -> NDArray[np.float32]:
    scales: NDArray[np.float32] = np.maximum(largest / np.float32(_LARGEST), np.float32(_SMALLEST_SCALE))
    return scales


@torch.inference_mode()
def sensitivities(
    model: GPT,
    pack: Pack,
    sequences: Sequences,
    reference: Sequence[Logits],
    on_step: OnStep = lambda _: None,
) -> Sensitivities:
    """Quantise every matrix alone, in all the bits it may have, and measure the effect on the output.

    `reference` is `torch_logits` of the sequences. Only the weights are rounded here, not the
    activations. Mixed-precision search since HAWQ-V2 (Dong et al., 2020) assumes that the effect of
    several matrices is nearly the sum of their single effects.
    """
    found: Sensitivities = {}
    shapes = matrices(model.config)
    for number, (name, (_, columns)) in enumerate(shapes.items(), start=1):
        on_step(f"rounding matrix {number} of {len(shapes)}")
        found[name] = {FLOAT: 0.0}
        for bits in possible_bits(name, columns):
            if bits != FLOAT:
                rounded = torch.from_numpy(dequantise(pack(name, bits), columns))
                with _replaced(model, name, rounded):
                    found[name][bits] = mean_kl(reference, torch_logits(model, sequences))
    return found


@torch.inference_mode()
def torch_logits(model: GPT, sequences: Sequences) -> list[Logits]:
    """Return PyTorch's logits (L, V) of each sequence (L,)."""
    with eval_mode(model):
        return [model(torch.from_numpy(ids)[None])[0].numpy() for ids in sequences]


@contextmanager
def _replaced(model: GPT, name: str, value: torch.Tensor) -> Iterator[None]:
    parameter = model.get_parameter(name)
    original = parameter.detach().clone()
    parameter.data.copy_(value)
    try:
        yield
    finally:
        parameter.data.copy_(original)


@contextmanager
def eval_mode(module: nn.Module) -> Iterator[None]:
    """Set eval mode inside the block; on any exit every submodule gets its own mode back."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
