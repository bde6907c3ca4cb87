"""Check a graph without running it: bytes and bits of its weights, and its operators."""

from collections.abc import Iterator
from math import prod
from typing import Final

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from edgegpt.config import ModelConfig
from edgegpt.contract import PORTABLE
from edgegpt.quantization import AUTO, FLOAT, Recipe, recipe, weight_bytes as stored_bytes
from edgegpt_export.bit_allocation import Quantisation
from edgegpt_export.graph import MICROSOFT, PACKED

_SHAPE_BYTES: Final = 256
_STANDARD: Final = ("", "ai.onnx")
# Operators of training, and those that draw random numbers.
_UNWANTED: Final = {"Dropout", "Bernoulli", "Multinomial"} | {
    f"Random{kind}{like}" for kind in ("Normal", "Uniform") for like in ("", "Like")
}


def weight_bytes(model: ModelProto) -> int:
    """Return the bytes of the weights in the file: initialisers and constants of any type.

    Scalars and small tensors of whole numbers, which are shapes and axes, do not count.
    """
    constants = [a.t for node in _nodes(model.graph) if node.op_type == "Constant" for a in node.attribute]
    return sum(_bytes(t) for t in (*model.graph.initializer, *constants) if t.dims and not _is_shape(t))


def expected_weight_bytes(config: ModelConfig, bits: Recipe, kv_cache: str = "fp32") -> int:
    """Return the bytes of the weights by a recipe, each stored once, and of the scales of an int8 cache."""
    cache_scales = 2 * 4 * config.n_layer * config.n_kv_head * config.head_dim if kv_cache == "int8" else 0
    return stored_bytes(config, bits) + cache_scales


def stored_bits(model: ModelProto) -> dict[str, int]:
    """Return the bits of the weights by name: the `bits` of the operator that reads them, else 32."""
    bits = {tensor.name: FLOAT for tensor in model.graph.initializer if tensor.data_type == TensorProto.FLOAT}
    for node in _nodes(model.graph):
        read = [name.removesuffix(PACKED) for name in node.input if name.endswith(PACKED)]
        for attribute in node.attribute:
            if attribute.name == "bits":
                bits |= dict.fromkeys(read, attribute.i)
    return bits


def misnamed_matrices(model: ModelProto, config: ModelConfig, quantisation: Quantisation) -> list[str]:
    """List matrices whose bits differ between the graph, the recipe and the precision's name."""
    precision, stated, stored = quantisation.precision, quantisation.bits, stored_bits(model)
    named = stated if precision == AUTO else recipe(config, precision)
    return [
        f"{name}: {stored.get(name)} in the graph, {stated[name]} in the recipe, {bits} in {precision}"
        for name, bits in named.items()
        if not stored.get(name) == stated[name] == bits
    ]


def unwanted_operators(model: ModelProto, target: str) -> list[str]:
    """Return the operators that this target does not allow, sorted."""
    domains = _STANDARD if target == PORTABLE else (*_STANDARD, MICROSOFT)
    found = set()
    for node in _nodes(model.graph):
        if node.domain not in domains:
            found.add(f"{node.domain}.{node.op_type}")
        elif node.op_type in _UNWANTED or _trains(node):
            found.add(node.op_type)
    return sorted(found)


def _bytes(tensor: TensorProto) -> int:
    return int(prod(tensor.dims) * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)


def _is_shape(tensor: TensorProto) -> bool:
    return tensor.data_type in (TensorProto.INT64, TensorProto.INT32) and _bytes(tensor) < _SHAPE_BYTES


def _trains(node: NodeProto) -> bool:
    return any(attribute.name == "training_mode" and attribute.i for attribute in node.attribute)


def _nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """Yield every node, those of subgraphs included."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from _nodes(attribute.g)
