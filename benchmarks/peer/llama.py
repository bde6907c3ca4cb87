"""llama.cpp through llama-cpp-python's C interface, without its Python loop and its copies of logits.

A step is `llama_decode` and numpy's argmax over the logits in llama.cpp's own memory. The cache is
float32 with float32 weights, so that the same is computed, and llama.cpp's default float16 with
quantised ones.

The weights are written as a GGUF file of the architecture gpt2 with the `gguf` package. Names of tensors
and keys: gguf.constants of the package, and llama.cpp's src/models/gpt2.cpp, which also wants a Q/K/V bias
(0 where our model has none). Quantised as llama-quantize does it: matrices and the token embedding;
positions, norms and biases stay float32. With 4-bit matrices the head has 8 bits, as in edgegpt's own int4;
llama-quantize would give it 6.
"""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import llama_cpp as lib
import numpy as np

from peer.engine import Logits, Peer, checkpoint_path, peer_of, read_shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgegpt.config import ModelConfig

    Array = NDArray[np.float32]

_OUTSIDE_BLOCKS = {"wte": "token_embd", "wpe": "position_embd", "norm_f": "output_norm", "head": "output"}
_IN_BLOCK = {
    "norm_1": "attn_norm",
    "attn.qkv": "attn_qkv",
    "attn.proj": "attn_output",
    "norm_2": "ffn_norm",
    "mlp.fc": "ffn_up",
    "mlp.proj": "ffn_down",
}


@lib.llama_log_callback  # type: ignore[untyped-decorator]
def _silent(level: int, text: bytes, user_data: ctypes.c_void_p) -> None:
    pass


def prepare(folder: Path, variant: str) -> None:
    from safetensors.numpy import load_file

    from edgegpt.config import ModelConfig

    checkpoint = checkpoint_path(folder)
    config = ModelConfig.from_yaml(checkpoint / "config.yaml")
    write_gguf(_file(folder, variant), config, load_file(checkpoint / "model.safetensors"), variant)


def open_peer(folder: Path, variant: str, threads: int) -> Peer:
    lib.llama_log_set(_silent, ctypes.c_void_p(0))
    lib.llama_backend_init()
    shape = read_shape(folder)
    model = lib.llama_model_load_from_file(
        str(_file(folder, variant)).encode(), lib.llama_model_default_params()
    )
    if not model:
        raise RuntimeError(f"llama.cpp cannot load {_file(folder, variant).name}")
    params = lib.llama_context_default_params()
    params.n_ctx = shape.block_size
    params.n_threads = params.n_threads_batch = threads
    if variant == "F32":
        params.type_k = params.type_v = lib.GGML_TYPE_F32
    context = lib.llama_init_from_model(model, params)
    if not context:
        raise RuntimeError(f"llama.cpp cannot make a context of {shape.block_size} tokens")
    memory = lib.llama_get_memory(context)

    def read(new: Sequence[int]) -> Logits:
        tokens = (lib.llama_token * len(new))(*new)
        code = lib.llama_decode(context, lib.llama_batch_get_one(tokens, len(new)))
        if code:
            raise RuntimeError(f"llama_decode returned {code}")
        return np.ctypeslib.as_array(lib.llama_get_logits_ith(context, -1), (shape.vocab_size,))

    def empty() -> None:
        lib.llama_memory_clear(memory, False)

    return peer_of(empty, read)


def _file(folder: Path, variant: str) -> Path:
    return folder / f"llama.{variant}.gguf"


def write_gguf(path: Path, config: "ModelConfig", weights: "Mapping[str, Array]", type_name: str) -> None:
    """Write weights, named and shaped as `accounting.parameter_shapes`, to a GGUF file.

    Args:
        path: the new file.
        config: the model's shape.
        weights: float32 arrays by name.
        type_name: type of the matrices, F32, Q8_0 or Q4_0.
    """
    import gguf  # not loaded in the process that is measured
    from gguf.quants import quantize

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
        kind = gguf.GGMLQuantizationType[_tensor_type(name, array, type_name)]
        writer.add_tensor(name, quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_name(name: str) -> str:
    """Translate a parameter's name: `blocks.0.attn.qkv.weight` -> `blk.0.attn_qkv.weight`."""
    module, _, kind = name.rpartition(".")
    if not module.startswith("blocks."):
        return f"{_OUTSIDE_BLOCKS[module]}.{kind}"
    _, layer, part = module.split(".", 2)
    return f"blk.{layer}.{_IN_BLOCK[part]}.{kind}"


def _tensor_type(name: str, array: "Array", matrices: str) -> str:
    """Return the type of one tensor in a file whose matrices have the type `matrices`."""
    if array.ndim == 1 or name.startswith("position_embd"):
        return "F32"
    return "Q8_0" if name.startswith("output.") and matrices == "Q4_0" else matrices


def _tensors(config: "ModelConfig", weights: "Mapping[str, Array]") -> "Iterator[tuple[str, Array]]":
    for name, array in weights.items():
        yield gguf_name(name), np.ascontiguousarray(array, np.float32)
    if not config.qkv_bias:
        for layer in range(config.n_layer):
            yield f"blk.{layer}.attn_qkv.bias", np.zeros(3 * config.n_embd, np.float32)
