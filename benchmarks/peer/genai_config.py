"""What onnxruntime-genai needs to know of an engine file of ours, as its genai_config.json."""

from typing import Any

from edgegpt import contract
from edgegpt.config import ModelConfig


def genai_config(config: ModelConfig, filename: str) -> dict[str, Any]:
    """The config of a model in the file `filename`, which lies beside the config.

    An answer as long as the context keeps the end token from ending a burst early; it must be one of
    the vocabulary.
    """
    past_key, past_value = (name.replace("0", "%d") for name in contract.past_names(0))
    present_key, present_value = (name.replace("0", "%d") for name in contract.present_names(0))
    return {
        "model": {
            "type": "llama",  # its name for any decoder with a cache
            "bos_token_id": 0,
            "eos_token_id": 0,
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
