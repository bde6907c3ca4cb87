"""One model as a checkpoint, from which every engine's file is made. Speed does not depend on its weights."""

from pathlib import Path

import numpy as np
import torch

from edgegpt.config import ModelConfig
from edgegpt.model import GPT, save_checkpoint
from edgegpt.tokenizer import Tokenizer
from peer.folder import Shape, checkpoint_path, write_shape

CONFIGS = Path(__file__).parents[2] / "configs" / "models"
SEED = 0
PREFERENCE = 8.0  # in deviations of a logit, before the blocks have their say


def make_checkpoint(folder: Path, size: str) -> ModelConfig:
    """Write the checkpoint of configs/models/{size}.yaml with random weights of a fixed seed."""
    config = ModelConfig.from_yaml(CONFIGS / f"{size}.yaml")
    torch.manual_seed(SEED)
    model = GPT(config).eval()
    draw_weights(model)
    save_checkpoint(checkpoint_path(folder), model, _tokenizer(config.vocab_size))
    write_shape(folder, Shape(config.vocab_size, config.block_size))
    return config


@torch.no_grad()
def draw_weights(model: GPT) -> None:
    """Random weights by which a wrong engine shows and a quantised one is judged as with trained ones.

    Each layer keeps the variance of what it reads, so all blocks and the attention matter to the logits,
    and biases and norms are random too. The head prefers one token after each, an arbitrary
    permutation: with wholly random logits the first and the second are so close that quantisation
    swaps them, and top-1 agreement would say nothing.
    """
    config = model.config
    stream = config.n_embd**-0.5  # of the residual stream, so that logits have a deviation of 1
    for name, parameter in model.named_parameters():
        into_stream = stream if ".proj." in name else 1.0
        if parameter.dim() == 1:
            is_gain = "norm" in name and name.endswith("weight")
            parameter.normal_(float(is_gain), 0.1 * into_stream)
        elif name.startswith(("wte", "wpe")):
            parameter.normal_(0.0, stream if name.startswith("wte") else 0.3 * stream)
        else:
            additions = 2 * config.n_layer if ".proj." in name else 1
            parameter.normal_(0.0, into_stream * (parameter.shape[1] * additions) ** -0.5)
    if not config.tie_embeddings:
        share = min(1.0, PREFERENCE * stream)
        preferred = model.wte.weight[torch.randperm(config.vocab_size)]
        model.head.weight.normal_(0.0, stream)
        model.head.weight.mul_((1 - share**2) ** 0.5).add_(preferred, alpha=share)


def _tokenizer(vocab_size: int) -> Tokenizer:
    """A tokenizer with exactly vocab_size tokens, so that every engine chooses among as many."""
    letters = np.random.default_rng(SEED).integers(ord("a"), ord("z") + 1, size=(4 * vocab_size, 8))
    corpus = (bytes(word).decode() for word in letters.astype(np.uint8))
    return Tokenizer.train(corpus, vocab_size=vocab_size)
