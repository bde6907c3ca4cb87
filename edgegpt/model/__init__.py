"""Define the GPT in PyTorch and its checkpoint folder."""

from typing import TYPE_CHECKING

from edgegpt import lazy_names

if TYPE_CHECKING:
    from edgegpt.model.checkpoint import (
        WEIGHTS as WEIGHTS,
        Checkpoint as Checkpoint,
        load_checkpoint as load_checkpoint,
        save_checkpoint as save_checkpoint,
    )
    from edgegpt.model.gpt import GPT as GPT

__getattr__ = lazy_names(
    __name__,
    {
        "checkpoint": "Checkpoint WEIGHTS load_checkpoint save_checkpoint",
        "gpt": "GPT",
    },
)
