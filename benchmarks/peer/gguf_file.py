"""Our weights as a GGUF file of the architecture gpt2, written with the `gguf` package.

Names of tensors and keys: gguf.constants of the package, and llama.cpp's src/models/gpt2.cpp, which
also wants a Q/K/V bias (0 where ours has none). Quantised as llama-quantize does it: matrices and the
token embedding; positions, norms and biases stay float32. Beside 4-bit matrices the head has 8 bits,
as in edgegpt's own int4; llama-quantize would give it 6.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import quantize
from numpy.typing import NDArray

from edgegpt.config import ModelConfig

Array = NDArray[np.float32]

_OUTSIDE = {"wte": "token_embd", "wpe": "position_embd", "norm_f": "output_norm", "head": "output"}
_IN_BLOCK = {
    "norm_1": "attn_norm",
    "attn.qkv": "attn_qkv",
    "attn.proj": "attn_output",
    "norm_2": "ffn_norm",
    "mlp.fc": "ffn_up",
    "mlp.proj": "ffn_down",
}


def write_gguf(path: Path, config: ModelConfig, weights: Mapping[str, Array], type_name: str) -> None:
    """Write arrays named and shaped as `accounting.parameter_shapes`; type_name is F32, Q8_0 or Q4_0."""
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_block_count(config.n_layer)
    writer.add_context_length(config.block_size)
    writer.add_embedding_length(config.n_embd)
    writer.add_feed_forward_length(4 * config.n_embd)
    writer.add_head_count(config.n_head)
    writer.add_layer_norm_eps(1e-5)
    writer.add_tokenizer_model("no_vocab")  # ids in, ids out
    writer.add_vocab_size(config.vocab_size)
    writer.add_file_type(gguf.LlamaFileType[f"{'ALL' if type_name == 'F32' else 'MOSTLY'}_{type_name}"])
    for name, array in _tensors(config, weights):
        kind = tensor_type(name, array, Type[type_name])
        writer.add_tensor(name, quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tensor_type(name: str, array: Array, body: Type) -> Type:
    """The type of a tensor in a file whose matrices are of the type `body`."""
    if array.ndim == 1 or name.startswith("position_embd"):
        return Type.F32
    return Type.Q8_0 if name.startswith("output.") and body == Type.Q4_0 else body


def gguf_name(name: str) -> str:
    """`blocks.0.attn.qkv.weight` -> `blk.0.attn_qkv.weight`."""
    module, _, kind = name.rpartition(".")
    if not module.startswith("blocks."):
        return f"{_OUTSIDE[module]}.{kind}"
    _, layer, part = module.split(".", 2)
    return f"blk.{layer}.{_IN_BLOCK[part]}.{kind}"


def _tensors(config: ModelConfig, weights: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    for name, array in weights.items():
        yield gguf_name(name), np.ascontiguousarray(array, np.float32)
    if not config.qkv_bias:
        for layer in range(config.n_layer):
            yield f"blk.{layer}.attn_qkv.bias", np.zeros(3 * config.n_embd, np.float32)
