"""onnxruntime-genai on edgegpt's own engine file: a genai_config.json, its decoding loop and its cache.

The graph has position_ids and no attention mask, which onnxruntime-genai supports; past and present
share a buffer. A step is `generate_next_token` and reading the token.
"""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime_genai as og

from edgegpt import contract
from peer.engine import Burst, Logits, Peer, checkpoint_path, logits_of, timed

if TYPE_CHECKING:
    from edgegpt.config import ModelConfig


def prepare(folder: Path, variant: str) -> None:
    from edgegpt.config import ModelConfig
    from peer.ours import engine_file

    file = engine_file(folder, variant)
    home = _home(folder, variant)
    home.mkdir(exist_ok=True)
    # onnxruntime-genai reads no path outside its folder, so the file and its external weights are linked.
    for part in folder.glob(f"{file.name}*"):
        os.link(part, home / part.name)
    config = genai_config(ModelConfig.from_yaml(checkpoint_path(folder) / "config.yaml"), file.name)
    (home / "genai_config.json").write_text(json.dumps(config, indent=2))


def open_peer(folder: Path, variant: str, threads: int) -> Peer:
    config = og.Config(str(_home(folder, variant)))
    options = {"intra_op_num_threads": threads, "inter_op_num_threads": 1}
    config.overlay(json.dumps({"model": {"decoder": {"session_options": options}}}))
    model = og.Model(config)
    generator = og.Generator(model, og.GeneratorParams(model))

    def tokens(prompt: Sequence[int], n: int) -> Iterable[int]:
        generator.append_tokens(np.asarray(prompt, np.int32))
        for _ in range(n):
            generator.generate_next_token()
            yield int(generator.get_next_tokens()[0])

    def burst(prompt: Sequence[int], n: int) -> Burst:
        generator.rewind_to(0)
        return timed(perf_counter(), tokens(prompt, n))

    def read(new: Sequence[int]) -> Logits:
        generator.append_tokens(np.asarray(new, np.int32))
        logits: Logits = generator.get_logits().reshape(-1)
        return logits

    def logits(ids: Sequence[int], at_once: int) -> Logits:
        generator.rewind_to(0)
        return logits_of(read, ids, at_once)

    return Peer(burst, logits)


def genai_config(config: "ModelConfig", filename: str) -> dict[str, Any]:
    """Return the genai_config.json for the engine file `filename` in the same folder."""
    past_key, past_value = (name.replace("0", "%d") for name in contract.past_names(0))
    present_key, present_value = (name.replace("0", "%d") for name in contract.present_names(0))
    return {
        "model": {
            "type": "llama",  # its name for any decoder with a cache
            "bos_token_id": 0,
            "eos_token_id": 0,  # must be in the vocabulary; `min_length` keeps it from ending a burst
            "pad_token_id": 0,
            "vocab_size": config.vocab_size,
            "context_length": config.block_size,
            "decoder": {
                "filename": filename,
                "session_options": {"provider_options": []},
                "head_size": config.head_dim,
                "hidden_size": config.n_embd,
                "num_attention_heads": config.n_head,
                "num_hidden_layers": config.n_layer,
                "num_key_value_heads": config.n_kv_head,
                "inputs": {
                    "input_ids": contract.INPUT_IDS,
                    "position_ids": contract.POSITION_IDS,
                    "past_key_names": past_key,
                    "past_value_names": past_value,
                },
                "outputs": {
                    "logits": contract.LOGITS,
                    "present_key_names": present_key,
                    "present_value_names": present_value,
                },
            },
        },
        "search": {
            "min_length": config.block_size,
            "max_length": config.block_size,
            "do_sample": False,
            "past_present_share_buffer": True,
        },
    }


def _home(folder: Path, variant: str) -> Path:
    return folder / f"genai-{variant}"
