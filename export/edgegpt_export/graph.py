"""The engine target: an ONNX graph built node by node from a config and arrays, without torch.

One graph does prefill and decode, with the `com.microsoft` operators that onnxruntime's CPU
provider runs fastest. Measured with onnxruntime 1.32, one thread, AVX2:

* FusedMatMul with transB is as fast as MatMul on a transposed copy and 2 us faster than Gemm, which
  needs the batch folded away and back; so every weight is stored once, as the checkpoint has it,
  and a tied head reads the embedding's own tensor.
* Add and LayerNormalization are up to seven times as fast as SkipLayerNormalization on a prompt and no
  slower on one token; onnxruntime does not fuse them here, as a test checks.
* GroupQueryAttention takes query, key and value packed and writes new rows into the cache in place.
* MatMulNBits without accuracy_level 4 is up to 80 times slower. A quantised tied head is stored as
  the rows that GatherBlockQuantized looks up and reshaped for the product while loading.
* After the last attention only the rows whose logits are wanted are computed.

Shapes: B batch, T new tokens, D n_embd, V vocab_size.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from edgegpt.config import ModelConfig
from edgegpt.contract import INPUT_IDS, LOGITS, LOGITS_START, POSITION_IDS, past_names, present_names
from edgegpt.errors import CheckpointError, ConfigError
from edgegpt.quantization import FLOAT, Recipe, block_size, recipe
from edgegpt_export.block_quant import Quantised, quantise

Weights = Mapping[str, NDArray[Any]]
Pack = Callable[[str, int], Quantised]  # quantises a matrix, given its name and bits

MICROSOFT: Final = "com.microsoft"
OPSET: Final = 17
IR_VERSION: Final = 8
NORM_EPSILON: Final = 1e-5  # torch.nn.LayerNorm's default
_HEAD_DIM_MULTIPLE: Final = 8  # required by GroupQueryAttention
_INTEGER_PRODUCTS: Final = 4  # accuracy_level: activations are quantised too, a row and block at a time
_K_SCALE_INPUT: Final = 12  # number of GroupQueryAttention's input k_scale
PACKED: Final = ".packed"  # ends the name of a quantised matrix
_TO_THE_END: Final = np.iinfo(np.int64).max

CacheScales = Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]]


@dataclass
class Graph:
    """Nodes and initialisers so far. A value has the name of the node that makes it."""

    weights: Weights
    bits: Recipe
    pack: Pack
    nodes: list[NodeProto] = field(default_factory=list)
    initializers: dict[str, TensorProto] = field(default_factory=dict)

    def parameter(self, name: str) -> str:
        """Add a checkpoint's tensor as an initialiser, as it is and once; return its name."""
        if name not in self.initializers:
            array = np.ascontiguousarray(self.weights[name], dtype=np.float32)
            self.initializers[name] = numpy_helper.from_array(array, name)
        return name

    def quantised(self, name: str, flat: bool) -> tuple[str, str]:
        """Add a checkpoint's matrix (N, K), quantised, and its scales (N, G); return their names.

        `flat` stores rows (N, bytes of a row), which can be looked up, else blocks (N, G, bytes of
        a block). A matrix is stored once, in the form of the first call.
        """
        packed_name, scales_name = f"{name}{PACKED}", f"{name}.scales"
        if packed_name not in self.initializers:
            q = self.pack(name, self.bits[name])
            packed = q.packed.reshape(len(q.packed), -1) if flat else q.packed
            self.initializers[packed_name] = numpy_helper.from_array(packed, packed_name)
            self.initializers[scales_name] = numpy_helper.from_array(q.scales, scales_name)
        return packed_name, scales_name

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """Add a constant that is not a parameter as an initialiser; return its name."""
        self.initializers[name] = numpy_helper.from_array(value, name)
        return name

    def add(
        self,
        op: str,
        path: str,
        inputs: list[str],
        outputs: list[str] | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """Append a node; return its first output, named `path` unless `outputs` is given."""
        outputs = outputs or [path]
        self.nodes.append(helper.make_node(op, inputs, outputs, name=path, domain=domain, **attributes))
        return outputs[0]

    def to_model(self, name: str, inputs: list[ValueInfoProto], outputs: list[ValueInfoProto]) -> ModelProto:
        """Return the graph as a model of the engine target's operator sets."""
        return helper.make_model(
            helper.make_graph(self.nodes, name, inputs, outputs, list(self.initializers.values())),
            opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)],
            ir_version=IR_VERSION,
            producer_name="edgegpt",
        )


def build_engine_graph(
    config: ModelConfig,
    weights: Weights,
    bits: Recipe | None = None,
    cache_scales: CacheScales | None = None,
    pack: Pack | None = None,
) -> ModelProto:
    """Build the engine target.

    Args:
        config: the model's config.
        weights: arrays named and shaped as `ModelConfig.parameter_shapes`; any float dtype, stored
            as float32 or quantised.
        bits: bits of every matrix, by name; 32 unless given.
        cache_scales: scales of keys and values of each layer, (1, n_kv_head, 1, head_dim), for a cache of
            int8; None for one of float32.
        pack: `packer(weights)` of an earlier graph, so that nothing is quantised twice.

    Returns:
        A model with the inputs and outputs of `edgegpt.contract`, without metadata.

    Raises:
        ConfigError: head_dim is not a multiple of 8.
        CheckpointError: an array is missing, or its shape is not the config's.
    """
    _check(config, weights)
    graph = Graph(weights, recipe(config, "fp32") if bits is None else bits, pack or packer(weights))
    lengths = _lengths(graph)
    tokens = embedding(graph, "/wte", "wte.weight", INPUT_IDS)
    positions = embedding(graph, "/wpe", "wpe.weight", POSITION_IDS)
    # `x` is the residual stream and `normed` what the next sublayer reads, both (B, T, D).
    normed, x = _add_norm(graph, "blocks.0.norm_1", tokens, positions)
    for i in range(config.n_layer):
        block = f"blocks.{i}"
        last = i == config.n_layer - 1
        y = _attention(graph, config, i, normed, lengths, cache_scales)
        if last:  # no later node reads other rows
            y, x = (_wanted_rows(graph, f"/{block}/wanted_{name}", v) for name, v in (("y", y), ("x", x)))
        y = linear(graph, f"/{block}/attn/proj", f"{block}.attn.proj.weight", y, f"{block}.attn.proj.bias")
        normed, x = _add_norm(graph, f"{block}.norm_2", x, y)
        y = _mlp(graph, config, block, normed)
        norm = "norm_f" if last else f"blocks.{i + 1}.norm_1"
        normed, x = _add_norm(graph, norm, x, y)
    head = "wte.weight" if config.tie_embeddings else "head.weight"
    linear(graph, "/head", head, normed, output=LOGITS)
    return _model(config, graph, TensorProto.INT8 if cache_scales else TensorProto.FLOAT)


def packer(weights: Weights) -> Pack:
    """Return a function that quantises each matrix once and keeps the result."""
    return cache(lambda name, bits: quantise(weights[name], bits))


def linear(
    graph: Graph, path: str, weight: str, x: str, bias: str | None = None, output: str | None = None
) -> str:
    """Add x (B, T, in) times a parameter (out, in), plus a bias (out,) -> (B, T, out).

    How a matrix is stored is decided here and in `embedding` only.
    """
    outputs = [output or path]
    if graph.bits[weight] == FLOAT:
        inputs = [x, graph.parameter(weight)]
        y = graph.add("FusedMatMul", path, inputs, outputs, MICROSOFT, transB=1)
        return graph.add("Add", f"{path}_bias", [y, graph.parameter(bias)]) if bias else y
    n, k = graph.weights[weight].shape
    bits = graph.bits[weight]
    block = block_size(k, bits)
    looked_up = weight == "wte.weight"
    packed, scales = graph.quantised(weight, flat=looked_up)
    if looked_up:
        shape = graph.constant(f"{path}/blocks_shape", np.array([n, k // block, -1], np.int64))
        packed = graph.add("Reshape", f"{path}/blocks", [packed, shape])
    attributes = {"K": k, "N": n, "bits": bits, "block_size": block, "accuracy_level": _INTEGER_PRODUCTS}
    # The empty inputs are zero points and group indices, which symmetric blocks do without.
    inputs = [x, packed, scales, *(("", "", graph.parameter(bias)) if bias else ())]
    return graph.add("MatMulNBits", path, inputs, outputs, MICROSOFT, **attributes)


def embedding(graph: Graph, path: str, weight: str, ids: str) -> str:
    """Add the rows `ids` (B, T) of a parameter (rows, D) -> (B, T, D)."""
    bits = graph.bits[weight]
    if bits == FLOAT:
        return graph.add("Gather", path, [graph.parameter(weight), ids])
    packed, scales = graph.quantised(weight, flat=True)
    block = block_size(graph.weights[weight].shape[1], bits)
    attributes: dict[str, Any] = {"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1}
    return graph.add("GatherBlockQuantized", path, [packed, ids, scales], domain=MICROSOFT, **attributes)


def _wanted_rows(graph: Graph, path: str, x: str) -> str:
    """Add the rows of x (B, T, D) from `logits_start` on."""
    end = graph.constant("to_the_end", np.array([_TO_THE_END], np.int64))
    axis = graph.constant("row_axis", np.array([1], np.int64))
    return graph.add("Slice", path, [x, LOGITS_START, end, axis])


def _lengths(graph: Graph) -> tuple[str, str]:
    """Add GroupQueryAttention's lengths: total length - 1, int32 (B,), and the longest, a scalar."""
    last = graph.constant("last_column", np.array(-1, np.int64))
    one = graph.constant("one", np.array(1, np.int32))
    position = graph.add("Gather", "/lengths/last_position", [POSITION_IDS, last], axis=1)
    seqlens_k = graph.add("Cast", "/lengths/seqlens_k", [position], to=TensorProto.INT32)
    longest = graph.add("ReduceMax", "/lengths/longest", [seqlens_k], keepdims=0)
    return seqlens_k, graph.add("Add", "/lengths/total", [longest, one])


def _add_norm(graph: Graph, norm: str, x: str, y: str) -> tuple[str, str]:
    """Add LayerNorm of x + y, and that sum; both (B, T, D)."""
    path = _path(norm)
    total = graph.add("Add", f"{path}/sum", [x, y])
    inputs = [total, graph.parameter(f"{norm}.weight"), graph.parameter(f"{norm}.bias")]
    return graph.add("LayerNormalization", path, inputs, axis=-1, epsilon=NORM_EPSILON), total


def _attention(
    graph: Graph,
    config: ModelConfig,
    layer: int,
    x: str,
    lengths: tuple[str, str],
    cache_scales: CacheScales | None,
) -> str:
    """Add attention (B, T, D) -> (B, T, D), the heads concatenated, without the output projection."""
    name, path = f"blocks.{layer}.attn", f"/blocks.{layer}/attn"
    bias = f"{name}.qkv.bias" if config.qkv_bias else None
    qkv = linear(graph, f"{path}/qkv", f"{name}.qkv.weight", x, bias)  # (B, T, 3D)
    inputs = [qkv, "", "", *past_names(layer), *lengths]
    attributes: dict[str, Any] = {"num_heads": config.n_head, "kv_num_heads": config.n_kv_head}
    if cache_scales is not None:
        scales = zip(("k_scale", "v_scale"), cache_scales[layer], strict=True)
        unused = [""] * (_K_SCALE_INPUT - len(inputs))
        inputs += unused + [graph.constant(f"{path}/{key}", value) for key, value in scales]
        attributes |= {"k_quant_type": "PER_CHANNEL", "v_quant_type": "PER_CHANNEL", "kv_cache_bit_width": 8}
    outputs = [f"{path}/attention", *present_names(layer)]
    return graph.add("GroupQueryAttention", f"{path}/attention", inputs, outputs, MICROSOFT, **attributes)


def _mlp(graph: Graph, config: ModelConfig, block: str, x: str) -> str:
    """Add the feed-forward network (B, T, D) -> (B, T, D)."""
    path = f"/{block}/mlp"
    hidden = linear(graph, f"{path}/fc", f"{block}.mlp.fc.weight", x)  # (B, T, 4D)
    gelu = "FastGelu" if config.gelu == "tanh" else "BiasGelu"
    bias = graph.parameter(f"{block}.mlp.fc.bias")
    hidden = graph.add(gelu, f"{path}/gelu", [hidden, bias], domain=MICROSOFT)
    return linear(graph, f"{path}/proj", f"{block}.mlp.proj.weight", hidden, f"{block}.mlp.proj.bias")


def _path(name: str) -> str:
    """Return the node name of a module, as `blocks.0.norm_1` -> `/blocks.0/norm_1`."""
    block, _, part = name.rpartition(".")
    return f"/{block}/{part}" if block else f"/{part}"


def _model(config: ModelConfig, graph: Graph, cache_type: int) -> ModelProto:
    ids = [_value(name, TensorProto.INT64, ["batch", "sequence"]) for name in (INPUT_IDS, POSITION_IDS)]
    # An input with an initialiser is optional.
    start = _value(graph.constant(LOGITS_START, np.zeros(1, np.int64)), TensorProto.INT64, [1])
    past, present = [], []
    for i in range(config.n_layer):
        past += [_cache_value(config, name, cache_type, "past") for name in past_names(i)]
        present += [_cache_value(config, name, cache_type, "present") for name in present_names(i)]
    logits = _value(LOGITS, TensorProto.FLOAT, ["batch", "rows", config.vocab_size])
    return graph.to_model("edgegpt", [*ids, *past, start], [logits, *present])


def _cache_value(config: ModelConfig, name: str, dtype: int, length: str) -> ValueInfoProto:
    return _value(name, dtype, ["batch", config.n_kv_head, length, config.head_dim])


def _value(name: str, dtype: int, shape: list[int | str]) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def _check(config: ModelConfig, weights: Weights) -> None:
    if config.head_dim % _HEAD_DIM_MULTIPLE:
        raise ConfigError(
            f"the engine target needs a head_dim (n_embd / n_head) divisible by {_HEAD_DIM_MULTIPLE}, got "
            f"{config.n_embd} / {config.n_head} = {config.head_dim}; the portable target takes any"
        )
    differences = []
    for name, shape in config.parameter_shapes().items():
        if name not in weights:
            differences.append(f"{name} is missing")
        elif tuple(weights[name].shape) != shape:
            differences.append(f"{name} is {list(weights[name].shape)}, expected {list(shape)}")
    if differences:
        raise CheckpointError("the arrays disagree with the config: " + "; ".join(differences))
