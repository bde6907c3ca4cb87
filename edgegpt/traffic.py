"""How many bytes of weights a decode step has to read."""

from edgegpt.config.model import ModelConfig
from edgegpt.packing import matrix_bytes
from edgegpt.quantization import Recipe, matrices, weight_bytes


def weight_bytes_per_token(config: ModelConfig, bits: Recipe) -> int:
    """Bytes of weights and scales that one decode step reads, whatever a cache may already hold.

    All of them but the embeddings, of which it looks up one row each; a tied head is the token
    embedding, and is read whole.

    Args:
        config: the model.
        bits: of each matrix.
    """
    looked_up = ["wpe.weight"] if config.tie_embeddings else ["wpe.weight", "wte.weight"]
    shapes = matrices(config)
    unread = sum(matrix_bytes(shapes[name][0] - 1, shapes[name][1], bits[name]) for name in looked_up)
    return weight_bytes(config, bits) - unread
