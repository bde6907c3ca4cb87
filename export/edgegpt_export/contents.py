"""What can be told about a file without running it."""

from collections.abc import Iterator
from math import prod
from typing import Final

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from edgegpt.config import ModelConfig
from edgegpt.contract import PORTABLE
from edgegpt.precision import Recipe
from edgegpt.precision import weight_bytes as stored_bytes

_MICROSOFT: Final = "com.microsoft"
_SHAPE_BYTES: Final = 256
_STANDARD: Final = ("", "ai.onnx")
# Operators of training, and those that draw random numbers.
_UNWANTED: Final = {"Dropout", "Bernoulli", "Multinomial"} | {
    f"Random{kind}{like}" for kind in ("Normal", "Uniform") for like in ("", "Like")
}


def weight_bytes(model: ModelProto) -> int:
    """Bytes of the weights in the file, as initialisers or constants of any type.

    Scalars and small tensors of whole numbers, which are shapes and axes, do not count.
    """
    constants = [a.t for node in _nodes(model.graph) if node.op_type == "Constant" for a in node.attribute]
    return sum(_bytes(t) for t in (*model.graph.initializer, *constants) if t.dims and not _is_shape(t))


def _bytes(tensor: TensorProto) -> int:
    return int(prod(tensor.dims) * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)


def _is_shape(tensor: TensorProto) -> bool:
    return tensor.data_type in (TensorProto.INT64, TensorProto.INT32) and _bytes(tensor) < _SHAPE_BYTES


def expected_weight_bytes(config: ModelConfig, bits: Recipe, kv_cache: str = "fp32") -> int:
    """Bytes of the weights by a recipe, each stored once, and of the scales of an int8 cache."""
    cache_scales = 2 * 4 * config.n_layer * config.n_kv_head * config.head_dim if kv_cache == "int8" else 0
    return stored_bytes(config, bits) + cache_scales


def unwanted_operators(model: ModelProto, target: str) -> list[str]:
    """Operators that do not belong into this target's file, sorted."""
    domains = _STANDARD if target == PORTABLE else (*_STANDARD, _MICROSOFT)
    found = set()
    for node in _nodes(model.graph):
        if node.domain not in domains:
            found.add(f"{node.domain}.{node.op_type}")
        elif node.op_type in _UNWANTED or _trains(node):
            found.add(node.op_type)
    return sorted(found)


def _trains(node: NodeProto) -> bool:
    return any(attribute.name == "training_mode" and attribute.i for attribute in node.attribute)


def _nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """Every node, those of subgraphs included."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from _nodes(attribute.g)
