"""Define the GPT in PyTorch and its checkpoint folder."""

from edgegpt.model.checkpoint import WEIGHTS, Checkpoint, load_checkpoint, save_checkpoint
from edgegpt.model.gpt import GPT

__all__ = ["GPT", "WEIGHTS", "Checkpoint", "load_checkpoint", "save_checkpoint"]
