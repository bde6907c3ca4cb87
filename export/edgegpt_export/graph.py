"""The engine target: an ONNX graph built node by node from a config and arrays, without torch.

One graph does prefill and decode, with the `com.microsoft` operators that onnxruntime's CPU
provider runs fastest. What was measured (onnxruntime 1.32, one thread, AVX2):

* FusedMatMul with transB is as fast as MatMul on a transposed copy and 2 us faster than Gemm, which
  needs the batch folded away and back; so every weight is stored once, as the checkpoint has it,
  and a tied head reads the embedding's own tensor.
* SkipLayerNormalization adds the projection's bias, the residual and normalises in one node; at the
  input it adds the two embeddings. A block is eight nodes.
* GroupQueryAttention takes query, key and value packed and writes new rows into the cache in place.

Shapes: B batch, T new tokens, D n_embd, V vocab_size.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from edgegpt.accounting import parameter_shapes
from edgegpt.config import ModelConfig
from edgegpt.contract import INPUT_IDS, LOGITS, POSITION_IDS, past_names, present_names
from edgegpt.errors import CheckpointError, ConfigError

Weights = Mapping[str, npt.NDArray[Any]]

_MICROSOFT: Final = "com.microsoft"
_OPSET: Final = 17
_IR_VERSION: Final = 8
_NORM_EPSILON: Final = 1e-5  # torch.nn.LayerNorm's default
_HEAD_DIM_MULTIPLE: Final = 8  # what GroupQueryAttention asks for


@dataclass
class Graph:
    """Nodes and initialisers so far. A value is called as the node that makes it."""

    weights: Weights
    nodes: list[NodeProto] = field(default_factory=list)
    initializers: dict[str, TensorProto] = field(default_factory=dict)

    def parameter(self, name: str) -> str:
        """The initialiser of a checkpoint's tensor, stored as it is and once; returns its name."""
        if name not in self.initializers:
            array = np.ascontiguousarray(self.weights[name], dtype=np.float32)
            self.initializers[name] = numpy_helper.from_array(array, name)
        return name

    def constant(self, name: str, value: npt.NDArray[Any]) -> str:
        """The initialiser of a constant that is no parameter; returns its name."""
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
        """Append a node; returns its first output, which is called `path` unless `outputs` says."""
        outputs = outputs or [path]
        self.nodes.append(helper.make_node(op, inputs, outputs, name=path, domain=domain, **attributes))
        return outputs[0]


def build_engine_graph(config: ModelConfig, weights: Weights) -> ModelProto:
    """Build the engine target.

    Args:
        config: the model's config.
        weights: arrays named and shaped as `accounting.parameter_shapes`; any float dtype, stored
            as float32.

    Returns:
        A model with the inputs and outputs of `edgegpt.contract`, without metadata.

    Raises:
        ConfigError: head_dim is not a multiple of 8.
        CheckpointError: an array is missing, or its shape is not the config's.
    """
    _check(config, weights)
    graph = Graph(weights)
    lengths = _lengths(graph)
    tokens = embedding(graph, "/wte", "wte.weight", INPUT_IDS)
    positions = embedding(graph, "/wpe", "wpe.weight", POSITION_IDS)
    # `x` is the residual stream and `normed` what the next sublayer reads, both (B, T, D).
    normed, x = _add_norm(graph, "blocks.0.norm_1", tokens, positions)
    for i in range(config.n_layer):
        block = f"blocks.{i}"
        y = _attention(graph, config, i, normed, lengths)
        normed, x = _add_norm(graph, f"{block}.norm_2", x, y, bias=f"{block}.attn.proj.bias")
        y = _mlp(graph, config, block, normed)
        last = i == config.n_layer - 1
        norm = "norm_f" if last else f"blocks.{i + 1}.norm_1"
        normed, x = _add_norm(graph, norm, x, y, bias=f"{block}.mlp.proj.bias", need_sum=not last)
    head = "wte.weight" if config.tie_embeddings else "head.weight"
    linear(graph, "/head", head, normed, output=LOGITS)
    return _model(config, graph)


def linear(graph: Graph, path: str, weight: str, x: str, output: str | None = None) -> str:
    """Add x (B, T, in) times a parameter (out, in), without bias -> (B, T, out).

    With `embedding` the one place that knows how a matrix is stored.
    """
    inputs = [x, graph.parameter(weight)]
    return graph.add("FusedMatMul", path, inputs, [output or path], _MICROSOFT, transB=1)


def embedding(graph: Graph, path: str, weight: str, ids: str) -> str:
    """Add the rows `ids` (B, T) of a parameter (rows, D) -> (B, T, D)."""
    return graph.add("Gather", path, [graph.parameter(weight), ids])


def _lengths(graph: Graph) -> tuple[str, str]:
    """GroupQueryAttention's view of the cache: total length - 1, int32 (B,), and the longest, a scalar."""
    last = graph.constant("last_column", np.array(-1, np.int64))
    one = graph.constant("one", np.array(1, np.int32))
    position = graph.add("Gather", "/lengths/last_position", [POSITION_IDS, last], axis=1)
    seqlens_k = graph.add("Cast", "/lengths/seqlens_k", [position], to=TensorProto.INT32)
    longest = graph.add("ReduceMax", "/lengths/longest", [seqlens_k], keepdims=0)
    return seqlens_k, graph.add("Add", "/lengths/total", [longest, one])


def _add_norm(
    graph: Graph, norm: str, x: str, y: str, bias: str | None = None, need_sum: bool = True
) -> tuple[str, str]:
    """LayerNorm of x + y (+ bias), and that sum; both (B, T, D)."""
    path = _path(norm)
    inputs = [x, y, graph.parameter(f"{norm}.weight"), graph.parameter(f"{norm}.bias")]
    if bias:
        inputs.append(graph.parameter(bias))
    outputs = [path, "", "", f"{path}/sum"] if need_sum else [path]
    graph.add("SkipLayerNormalization", path, inputs, outputs, _MICROSOFT, epsilon=_NORM_EPSILON)
    return path, f"{path}/sum"


def _attention(graph: Graph, config: ModelConfig, layer: int, x: str, lengths: tuple[str, str]) -> str:
    """(B, T, D) -> (B, T, D); the output projection's bias is left to the norm that follows."""
    name, path = f"blocks.{layer}.attn", f"/blocks.{layer}/attn"
    qkv = linear(graph, f"{path}/qkv", f"{name}.qkv.weight", x)  # (B, T, 3D)
    if config.qkv_bias:
        qkv = graph.add("Add", f"{path}/qkv_bias", [qkv, graph.parameter(f"{name}.qkv.bias")])
    y = graph.add(
        "GroupQueryAttention",
        f"{path}/attention",
        [qkv, "", "", *past_names(layer), *lengths],
        [f"{path}/attention", *present_names(layer)],
        _MICROSOFT,
        num_heads=config.n_head,
        kv_num_heads=config.n_kv_head,
    )
    return linear(graph, f"{path}/proj", f"{name}.proj.weight", y)


def _mlp(graph: Graph, config: ModelConfig, block: str, x: str) -> str:
    """(B, T, D) -> (B, T, D); the output projection's bias is left to the norm that follows."""
    path = f"/{block}/mlp"
    hidden = linear(graph, f"{path}/fc", f"{block}.mlp.fc.weight", x)  # (B, T, 4D)
    gelu = "FastGelu" if config.gelu == "tanh" else "BiasGelu"
    bias = graph.parameter(f"{block}.mlp.fc.bias")
    hidden = graph.add(gelu, f"{path}/gelu", [hidden, bias], domain=_MICROSOFT)
    return linear(graph, f"{path}/proj", f"{block}.mlp.proj.weight", hidden)


def _path(name: str) -> str:
    """`blocks.0.norm_1` -> `/blocks.0/norm_1`."""
    block, _, part = name.rpartition(".")
    return f"/{block}/{part}" if block else f"/{part}"


def _model(config: ModelConfig, graph: Graph) -> ModelProto:
    ids = [_value(name, TensorProto.INT64, ["batch", "sequence"]) for name in (INPUT_IDS, POSITION_IDS)]
    past, present = [], []
    for i in range(config.n_layer):
        past += [_cache_value(config, name, "past") for name in past_names(i)]
        present += [_cache_value(config, name, "present") for name in present_names(i)]
    logits = _value(LOGITS, TensorProto.FLOAT, ["batch", "sequence", config.vocab_size])
    return helper.make_model(
        helper.make_graph(
            graph.nodes, "edgegpt", [*ids, *past], [logits, *present], list(graph.initializers.values())
        ),
        opset_imports=[helper.make_opsetid("", _OPSET), helper.make_opsetid(_MICROSOFT, 1)],
        ir_version=_IR_VERSION,
        producer_name="edgegpt",
    )


def _cache_value(config: ModelConfig, name: str, length: str) -> ValueInfoProto:
    return _value(name, TensorProto.FLOAT, ["batch", config.n_kv_head, length, config.head_dim])


def _value(name: str, dtype: int, shape: list[int | str]) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def _check(config: ModelConfig, weights: Weights) -> None:
    if config.head_dim % _HEAD_DIM_MULTIPLE:
        raise ConfigError(
            f"the engine target needs a head_dim (n_embd / n_head) divisible by {_HEAD_DIM_MULTIPLE}, got "
            f"{config.n_embd} / {config.n_head} = {config.head_dim}; the portable target takes any"
        )
    differences = []
    for name, shape in parameter_shapes(config).items():
        if name not in weights:
            differences.append(f"{name} is missing")
        elif tuple(weights[name].shape) != shape:
            differences.append(f"{name} is {list(weights[name].shape)}, expected {list(shape)}")
    if differences:
        raise CheckpointError("the arrays disagree with the config: " + "; ".join(differences))
