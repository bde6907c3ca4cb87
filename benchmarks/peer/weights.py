"""Make the checkpoint from which every engine's files are made; speed does not depend on its weights."""

from pathlib import Path

import numpy as np
import torch

from edgegpt.config import ModelConfig
from edgegpt.model import GPT, save_checkpoint
from edgegpt.tokenizer import Tokenizer
from peer.engine import Shape, checkpoint_path, write_shape

CONFIGS = Path(__file__).parents[2] / "configs" / "models"
SEED = 0
PREFERENCE = 8.0  # in standard deviations of a logit, without the effect of the blocks


def make_checkpoint(folder: Path, size: str) -> ModelConfig:
    """Write a checkpoint of configs/models/{size}.yaml with random weights of a fixed seed."""
    config = ModelConfig.from_yaml(CONFIGS / f"{size}.yaml")
    torch.manual_seed(SEED)
    model = GPT(config).eval()
    draw_weights(model)
    save_checkpoint(checkpoint_path(folder), model, _tokenizer(config.vocab_size))
    write_shape(folder, Shape(config.vocab_size, config.block_size))
    return config


@torch.no_grad()
def draw_weights(model: GPT) -> None:
    """Draw weights that show a wrong engine and that quantisation affects as it does trained ones.

    Each layer keeps the variance of its input, so all blocks and the attention affect the logits; biases
    and norms are random too. For each token the head prefers one next token, a random permutation: with
    purely random logits the first and the second are so close that quantisation swaps them, and top-1
    agreement would mean nothing.
    """
    config = model.config
    stream = config.n_embd**-0.5  # deviation of the residual stream, so that logits have one of 1
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
    """Train a tokenizer with exactly vocab_size tokens, so that all engines choose from the same number."""
    letters = np.random.default_rng(SEED).integers(ord("a"), ord("z") + 1, size=(4 * vocab_size, 8))
    corpus = (bytes(word).decode() for word in letters.astype(np.uint8))
    return Tokenizer.train(corpus, vocab_size=vocab_size)
