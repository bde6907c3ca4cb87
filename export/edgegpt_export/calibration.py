"""Tokens that a model is measured on where few bits are decided: its own text, or a user's examples."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from edgegpt.errors import CheckpointError
from edgegpt.model.checkpoint import Checkpoint
from edgegpt_export.examples import Examples
from edgegpt_export.modes import eval_mode

Sequences = Sequence[NDArray[np.int64]]  # each (L,)

_SEED: Final = 0
_TEXTS: Final = 8
_TEXT_TOKENS: Final = 128
_EXAMPLES: Final = 64


def calibration_sequences(checkpoint: Checkpoint, examples: Examples | None) -> Sequences:
    """Token sequences (L,), each of at least two tokens that fit into the context.

    The first 64 of a user's examples; without any, 8 texts that the model writes at temperature 1, which is
    nearer to its work than random tokens are.

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
    """(texts, tokens), drawn at temperature 1 from a random first token."""
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
