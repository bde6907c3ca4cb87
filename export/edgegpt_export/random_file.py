"""A file of a config with random weights, to be measured; onnx and numpy only, no torch.

Speed and memory do not depend on what the weights are. No proof is in the file, and its tool says so.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

from edgegpt import __version__, contract
from edgegpt.accounting import parameter_shapes
from edgegpt.config.model import ModelConfig
from edgegpt.quantization import matrices, recipe
from edgegpt.tokenizer import MIN_VOCAB_SIZE, Tokenizer
from edgegpt_export.block_quant import Quantised
from edgegpt_export.graph import build_engine_graph
from edgegpt_export.stamp import add_metadata, seal
from edgegpt_export.synthetic import RandomWeights, random_packed
from edgegpt_export.write import staged, write_model


def write_random_file(path: Path, config: ModelConfig, precision: str) -> None:
    """Write an engine file of `fp32`, `int8` or `int4`, with a tokenizer of the config's vocabulary.

    Raises:
        ConfigError: head_dim is not a multiple of 8.
    """
    bits, shapes = recipe(config, precision), matrices(config)
    weights = RandomWeights(parameter_shapes(config))

    def pack(name: str, few: int) -> Quantised:
        return random_packed(shapes[name], few, weights.rng)

    model = build_engine_graph(config, weights, bits, pack=cache(pack))
    add_metadata(model, _metadata(config, precision, bits))
    with staged(path) as temporary:
        write_model(model, temporary)
        seal(temporary)


def _metadata(config: ModelConfig, precision: str, bits: Mapping[str, int]) -> dict[str, str]:
    quantised = json.dumps({"weights": "random", "bits": dict(bits)}) if precision != "fp32" else "{}"
    return {
        contract.META_FORMAT_VERSION: str(contract.FORMAT_VERSION),
        contract.META_TARGET: contract.ENGINE,
        contract.META_CONFIG: config.to_json(),
        contract.META_TOKENIZER: _tokenizer(config.vocab_size).to_json(),
        contract.META_PRECISION: precision,
        contract.META_RECIPE: quantised,
        contract.META_KV_CACHE: "fp32",
        contract.META_SAMPLING: "{}",
        contract.META_TOOL: f"edgegpt {__version__}, random weights",
    }


@cache
def _tokenizer(vocab_size: int) -> Tokenizer:
    """One with vocab_size tokens: it is parsed while loading, and argmax looks at so many logits."""
    letters = np.random.default_rng(0).integers(ord("a"), ord("z") + 1, size=(2 * vocab_size, 8))
    words = (bytes(word).decode() for word in letters.astype(np.uint8))
    return Tokenizer.train(words, vocab_size=max(MIN_VOCAB_SIZE, vocab_size))
