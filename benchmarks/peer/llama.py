"""llama.cpp through llama-cpp-python's C interface, without its Python loop and its copies of logits.

A step is `llama_decode` and numpy's argmax over the logits where they lie. The cache is float32 beside
float32 weights, so that the same is computed, and llama.cpp's default float16 beside quantised ones.
"""

import ctypes
from collections.abc import Sequence
from pathlib import Path

import llama_cpp as lib
import numpy as np

from peer.engine import Logits, Peer, peer_of
from peer.folder import checkpoint_path, read_shape


@lib.llama_log_callback
def _silent(level: int, text: bytes, user_data: ctypes.c_void_p) -> None:
    pass


def prepare(folder: Path, variant: str) -> None:
    from safetensors.numpy import load_file

    from edgegpt.config import ModelConfig
    from peer.gguf_file import write_gguf

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
