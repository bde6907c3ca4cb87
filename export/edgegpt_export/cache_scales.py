"""How large keys and values get: the scales of an int8 cache."""

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from edgegpt.model.gpt import GPT
from edgegpt_export.calibration import Sequences
from edgegpt_export.graph import CacheScales
from edgegpt_export.modes import eval_mode

_SEED: Final = 0
_LARGEST: Final = 127
_SMALLEST_SCALE: Final = 1e-6  # of a channel that is always 0


@torch.inference_mode()
def cache_scales(model: GPT, sequences: Sequences) -> CacheScales:
    """Scales of keys and values, a pair a layer, each float32 (1, n_kv_head, 1, head_dim).

    A channel's largest magnitude becomes 127: over the sequences, and over random tokens that fill
    the context, so that every position has been seen. What is larger later on is clipped.
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
