"""One model of random weights as a checkpoint, from which every engine's file is made."""

from pathlib import Path

import numpy as np
import torch

from edgegpt.checkpoint import save_checkpoint
from edgegpt.config import ModelConfig
from edgegpt.model import GPT
from edgegpt.tokenizer import Tokenizer
from peer.folder import Shape, checkpoint_path, write_shape

CONFIGS = Path(__file__).parents[2] / "configs" / "models"
SEED = 0


def make_checkpoint(folder: Path, size: str) -> ModelConfig:
    """Write the checkpoint of configs/models/{size}.yaml with weights of a fixed seed.

    Speed does not depend on weights. Biases and norms are random too, so that an engine that mixes
    them up shows; the head is wide enough for logits of standard deviation 1.
    """
    config = ModelConfig.from_yaml(CONFIGS / f"{size}.yaml")
    torch.manual_seed(SEED)
    model = GPT(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                norm = name.split(".")[-2].startswith("norm") and name.endswith("weight")
                parameter.normal_(1.0 if norm else 0.0, 0.1 if norm else 0.02)
        if not config.tie_embeddings:
            model.head.weight.normal_(0.0, config.n_embd**-0.5)
    save_checkpoint(checkpoint_path(folder), model, _tokenizer(config.vocab_size))
    write_shape(folder, Shape(config.vocab_size, config.block_size))
    return config


def _tokenizer(vocab_size: int) -> Tokenizer:
    """A tokenizer with exactly vocab_size tokens, so that every engine chooses among as many."""
    letters = np.random.default_rng(SEED).integers(ord("a"), ord("z") + 1, size=(4 * vocab_size, 8))
    corpus = (bytes(word).decode() for word in letters.astype(np.uint8))
    return Tokenizer.train(corpus, vocab_size=vocab_size)
