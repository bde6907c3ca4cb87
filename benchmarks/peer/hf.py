"""transformers: GPT2LMHeadModel in eager torch with its own cache, without the bookkeeping of generate()."""

from collections.abc import Sequence
from pathlib import Path

import torch
import transformers
from gpt2_twin import gpt2_twin

from peer.engine import Logits, Peer, checkpoint_path, peer_of


def twin_folder(folder: Path) -> Path:
    """Return the folder of the saved GPT2LMHeadModel; make it if it does not exist yet."""
    twin = folder / "transformers"
    if not twin.exists():
        from edgegpt.model import load_checkpoint

        gpt2_twin(load_checkpoint(checkpoint_path(folder)).model).save_pretrained(twin)
    return twin


def prepare(folder: Path, variant: str) -> None:
    twin_folder(folder)


def open_peer(folder: Path, variant: str, threads: int) -> Peer:
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    model = transformers.GPT2LMHeadModel.from_pretrained(twin_folder(folder)).eval()
    cache = transformers.DynamicCache()

    def read(new: Sequence[int]) -> Logits:
        output = model(torch.tensor([list(new)]), past_key_values=cache, use_cache=True, logits_to_keep=1)
        logits: Logits = output.logits[0, -1].numpy()
        return logits

    def empty() -> None:
        nonlocal cache
        cache = transformers.DynamicCache()

    return peer_of(empty, read)
