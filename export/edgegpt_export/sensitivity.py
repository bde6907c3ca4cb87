"""How much each matrix suffers from few bits, one at a time, in PyTorch."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from edgegpt.model.gpt import GPT
from edgegpt.quantization import FLOAT, matrices, possible_bits
from edgegpt_export.block_quant import dequantise
from edgegpt_export.calibration import Sequences
from edgegpt_export.compare import mean_kl
from edgegpt_export.graph import Pack
from edgegpt_export.modes import eval_mode
from edgegpt_export.runner import Logits

# Mean KL(float32 || this matrix alone in few bits), in nats, by name and bits.
Sensitivities = dict[str, dict[int, float]]


@torch.inference_mode()
def sensitivities(
    model: GPT,
    pack: Pack,
    sequences: Sequences,
    reference: Sequence[Logits],
    on_step: Callable[[str], None] = lambda _: None,
) -> Sensitivities:
    """Quantise every matrix by itself, in all the bits it may have, and see what it does to the output.

    `reference` is `torch_logits` of the sequences. Only the weights are rounded here, not the
    activations. That the harm of several matrices is nearly the sum of their own is the assumption of
    mixed-precision search since HAWQ-V2 (Dong et al., 2020).
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
    """Logits (L, V) of each sequence (L,)."""
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
