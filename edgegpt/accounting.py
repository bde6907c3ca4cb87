"""Exact sizes of a model from its config alone: no torch, no onnx."""

from math import prod

from edgegpt.config import ModelConfig


def parameter_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every parameter tensor, in the PyTorch module's order.

    Linear weights are (out, in), as in `torch.nn.Linear`. A tied head has no tensor of its own.
    """
    d, v = config.n_embd, config.vocab_size
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (v, d), "wpe.weight": (config.block_size, d)}
    for i in range(config.n_layer):
        block = f"blocks.{i}"
        shapes[f"{block}.norm_1.weight"] = (d,)
        shapes[f"{block}.norm_1.bias"] = (d,)
        shapes[f"{block}.attn.qkv.weight"] = (3 * d, d)
        if config.qkv_bias:
            shapes[f"{block}.attn.qkv.bias"] = (3 * d,)
        shapes[f"{block}.attn.proj.weight"] = (d, d)
        shapes[f"{block}.attn.proj.bias"] = (d,)
        shapes[f"{block}.norm_2.weight"] = (d,)
        shapes[f"{block}.norm_2.bias"] = (d,)
        shapes[f"{block}.mlp.fc.weight"] = (4 * d, d)
        shapes[f"{block}.mlp.fc.bias"] = (4 * d,)
        shapes[f"{block}.mlp.proj.weight"] = (d, 4 * d)
        shapes[f"{block}.mlp.proj.bias"] = (d,)
    shapes["norm_f.weight"] = (d,)
    shapes["norm_f.bias"] = (d,)
    if not config.tie_embeddings:
        shapes["head.weight"] = (v, d)
    return shapes


def parameter_count(config: ModelConfig) -> int:
    """Number of parameters; a tied head counts once."""
    return sum(prod(shape) for shape in parameter_shapes(config).values())
