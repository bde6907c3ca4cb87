"""Graphs and files with random weights, for `edgegpt profile` and `edgegpt plan`; onnx and numpy, no torch.

Speed and memory do not depend on the values of weights. A file holds no verification result, and its
tool entry says that its weights are random. A graph repeats one kind of node of the engine target, with
the same attributes, often enough to make the rest of a call negligible; random weights keep the variance of
the values, so that no denormal or infinite number changes the speed. Shapes: T new tokens, D width.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper

from edgegpt import __version__, contract
from edgegpt.config import ModelConfig
from edgegpt.contract import past_names, present_names
from edgegpt.quantization import block_size, matrices, recipe
from edgegpt.tokenizer import MIN_VOCAB_SIZE, Tokenizer
from edgegpt_export.block_quant import Quantised
from edgegpt_export.graph import MICROSOFT, NORM_EPSILON, Graph, build_engine_graph, embedding, linear
from edgegpt_export.write import add_metadata, staged, write_digest, write_model

X: Final = "x"  # (1, T, D) float32, or ids (1, T) of lookups
TOTAL: Final = "total"  # int32 scalar: tokens in the cache after the call
LAST: Final = "last"  # int32 (1,): total - 1
_LENGTH: Final = "tokens"


def write_random_file(path: Path, config: ModelConfig, precision: str) -> None:
    """Write an engine file of `fp32`, `int8` or `int4`, with a tokenizer of the config's vocabulary.

    Raises:
        ConfigError: head_dim is not a multiple of 8.
    """
    bits, shapes = recipe(config, precision), matrices(config)
    weights = RandomWeights(config.parameter_shapes())

    def pack(name: str, few: int) -> Quantised:
        return random_packed(shapes[name], few, weights.rng)

    model = build_engine_graph(config, weights, bits, pack=cache(pack))
    add_metadata(model, _metadata(config, precision, bits))
    with staged(path) as temporary:
        write_model(model, temporary)
        write_digest(temporary)


def matmuls(n: int, outputs: int, inputs: int, bits: int) -> bytes:
    """Build n products of X (1, T, inputs) with weights (outputs, inputs) each, to outputs (1, T, outputs).

    Bind all outputs to one buffer.
    """
    model: bytes = _matmuls(n, outputs, inputs, bits).SerializeToString()
    return model


def write_matmuls(path: Path, n: int, outputs: int, inputs: int, bits: int) -> None:
    """Write the model of `matmuls` to a file; large weights become external data, as in an engine file."""
    write_model(_matmuls(n, outputs, inputs, bits), path)


def attention(n_layer: int, n_head: int, head_dim: int) -> bytes:
    """Build the attention of several layers, each with its cache, on one packed QKV (1, T, 3D).

    Inputs X, LAST, TOTAL and the contract's past, outputs the contract's present: bind both to one buffer.
    """
    graph = _graph({}, 32)
    past, present = [], []
    for i in range(n_layer):
        inputs = [X, "", "", *past_names(i), LAST, TOTAL]
        outputs = [f"/{i}/attention", *present_names(i)]
        heads = {"num_heads": n_head, "kv_num_heads": n_head}
        graph.add("GroupQueryAttention", f"/{i}/attention", inputs, outputs, MICROSOFT, **heads)
        past += [_cache(name, n_head, "past", head_dim) for name in past_names(i)]
        present += [_cache(name, n_head, "present", head_dim) for name in present_names(i)]
    last = helper.make_tensor_value_info(LAST, TensorProto.INT32, [1])
    total = helper.make_tensor_value_info(TOTAL, TensorProto.INT32, [])
    return _serialised(graph, [_floats(X, 3 * n_head * head_dim), *past, last, total], present)


def norms(n: int, width: int) -> bytes:
    """Build a chain of n times Add and LayerNormalization, X to its output (1, T, width)."""
    graph = _graph({}, 32)
    gain = graph.constant("gain", np.ones(width, np.float32))
    shift = graph.constant("shift", np.zeros(width, np.float32))
    value, stream = X, X
    for i in range(n):
        stream = graph.add("Add", f"/{i}/sum", [stream, value])
        outputs = [output_name(0) if i == n - 1 else f"/{i}"]
        inputs = [stream, gain, shift]
        value = graph.add("LayerNormalization", f"/{i}", inputs, outputs, axis=-1, epsilon=NORM_EPSILON)
    return _serialised(graph, [_floats(X, width)], [_floats(output_name(0), width)])


def gelus(n: int, width: int) -> bytes:
    """Build a chain of n FastGelu with bias, X to its output (1, T, width)."""
    bias = np.full(width, 0.5, np.float32)  # without it a chain would converge to 0
    return _elementwise("FastGelu", n, width, bias, MICROSOFT)


def additions(n: int, width: int) -> bytes:
    """Build a chain of n additions of a vector, X to its output (1, T, width)."""
    return _elementwise("Add", n, width, np.full(width, 1e-3, np.float32), "")


def lookups(n: int, rows: int, width: int, bits: int) -> bytes:
    """Build n lookups of the ids X (1, T) in tables (rows, width) each, to outputs (1, T, width)."""
    names = [f"t{i}.weight" for i in range(n)]
    graph = _graph(dict.fromkeys(names, (rows, width)), bits)
    for i, name in enumerate(names):
        embedding(graph, output_name(i), name, X)
    ids = helper.make_tensor_value_info(X, TensorProto.INT64, [1, _LENGTH])
    return _serialised(graph, [ids], [_floats(output_name(i), width) for i in range(n)])


def output_name(i: int) -> str:
    """Return the name of the i-th output; a chain of nodes has one, 0."""
    return f"y{i}"


class RandomWeights(Mapping[str, NDArray[np.float32]]):
    """Random arrays by name, made when one is stored; gains of norms are near 1.

    The float32 values of a quantised matrix are never made.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.rng = np.random.default_rng(0)
        self._shapes = shapes

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        shape = self._shapes[name]
        lazy: Any = _Lazy(shape, self.rng, 1.0 if "norm" in name and name.endswith("weight") else 0.0)
        return lazy  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)


class _Lazy:
    """A random array that numpy makes when it converts this."""

    def __init__(self, shape: tuple[int, ...], rng: np.random.Generator, mean: float) -> None:
        self.shape, self._rng, self._mean = shape, rng, mean

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[np.float32]:
        made = random_weights(self.shape, self._rng)
        made += np.float32(self._mean)
        return made


def random_weights(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
    """Return uniform float32 weights of variance 1 / inputs."""
    weights = rng.random(shape, np.float32)
    weights -= np.float32(0.5)
    weights *= np.float32((12 / shape[-1]) ** 0.5)
    return weights


def random_packed(shape: tuple[int, int], bits: int, rng: np.random.Generator) -> Quantised:
    """Return a random quantised matrix of that variance, without the search for the best scales."""
    rows, columns = shape
    block = block_size(columns, bits)
    blocks = -(-columns // block)
    packed = rng.integers(0, 256, (rows, blocks, block * bits // 8), np.uint8)
    scale = (12 / columns) ** 0.5 / 2**bits
    return Quantised(packed, np.full((rows, blocks), scale, np.float32), bits)


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
    """Train a tokenizer of vocab_size tokens, so that loading and argmax cost the same as in a real file."""
    letters = np.random.default_rng(0).integers(ord("a"), ord("z") + 1, size=(2 * vocab_size, 8))
    words = (bytes(word).decode() for word in letters.astype(np.uint8))
    return Tokenizer.train(words, vocab_size=max(MIN_VOCAB_SIZE, vocab_size))


def _matmuls(n: int, outputs: int, inputs: int, bits: int) -> ModelProto:
    names = [f"m{i}.weight" for i in range(n)]
    graph = _graph(dict.fromkeys(names, (outputs, inputs)), bits)
    results = [_floats(output_name(i), outputs) for i in range(n)]
    for i, name in enumerate(names):
        linear(graph, f"/m{i}", name, X, output=output_name(i))
    return graph.to_model("profile", [_floats(X, inputs)], results)


def _elementwise(op: str, n: int, width: int, vector: NDArray[np.float32], domain: str) -> bytes:
    graph = _graph({}, 32)
    constant = graph.constant("vector", vector)
    value = X
    for i in range(n):
        value = graph.add(op, f"/{i}", [value, constant], [output_name(0) if i == n - 1 else f"/{i}"], domain)
    return _serialised(graph, [_floats(X, width)], [_floats(output_name(0), width)])


def _graph(shapes: dict[str, tuple[int, int]], bits: int) -> Graph:
    """Return an empty graph whose parameters are drawn when they are added."""
    weights = RandomWeights(shapes)

    def pack(name: str, few: int) -> Quantised:
        return random_packed(shapes[name], few, weights.rng)

    return Graph(weights, dict.fromkeys(shapes, bits), pack)


def _serialised(graph: Graph, inputs: list[Any], outputs: list[Any]) -> bytes:
    model: bytes = graph.to_model("profile", inputs, outputs).SerializeToString()
    return model


def _floats(name: str, width: int) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, _LENGTH, width])


def _cache(name: str, n_head: int, length: str, head_dim: int) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, n_head, length, head_dim])
