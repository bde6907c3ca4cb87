"""Whether the graph of a file is the one that its config describes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnxruntime as ort

from edgegpt import contract
from edgegpt.config.model import ModelConfig
from edgegpt.errors import ArtifactError

Shape = tuple[int | None, ...]  # None where every size fits

_FLOAT, _INT8, _INT64 = "tensor(float)", "tensor(int8)", "tensor(int64)"


def check_graph(
    path: Path, session: ort.InferenceSession, config: ModelConfig, target: str, kv_cache: str
) -> None:
    """Compare names, types and fixed sizes of inputs and outputs; raises ArtifactError."""
    numbers = {"fp32": _FLOAT, "int8": _INT8}[kv_cache]
    cache = (numbers, (None, config.n_kv_head, None, config.head_dim))
    ids = (_INT64, (None, None))
    inputs: dict[str, tuple[str, Shape]] = {contract.INPUT_IDS: ids, contract.POSITION_IDS: ids}
    outputs: dict[str, tuple[str, Shape]] = {contract.LOGITS: (_FLOAT, (None, None, config.vocab_size))}
    for layer in range(config.n_layer):
        inputs.update(dict.fromkeys(contract.past_names(layer), cache))
        outputs.update(dict.fromkeys(contract.present_names(layer), cache))
    optional = {contract.LOGITS_START: (_INT64, (1,))} if target == contract.ENGINE else {}
    _compare(path, "input", inputs, session.get_inputs())
    _compare(path, "optional input", optional, session.get_overridable_initializers())
    _compare(path, "output", outputs, session.get_outputs())


def _compare(path: Path, kind: str, expected: Mapping[str, tuple[str, Shape]], found: list[Any]) -> None:
    names = {value.name for value in found}
    for name in expected:
        if name not in names:
            raise ArtifactError(f"the graph in {path} lacks the {kind} {name} that its config asks for")
    for value in found:
        if value.name not in expected:
            raise ArtifactError(
                f"the graph in {path} has the {kind} {value.name}, which is not in its config"
            )
        element, shape = expected[value.name]
        if value.type != element or not _fits(value.shape, shape):
            raise ArtifactError(
                f"the graph in {path} disagrees with its config: {kind} {value.name} is {value.type} "
                f"{_written(value.shape)}, expected {element} {_written(shape)}"
            )


def _fits(found: list[Any], expected: Shape) -> bool:
    """Whether the ranks are equal and no fixed size differs; a named size fits everything."""
    if len(found) != len(expected):
        return False
    pairs = zip(found, expected, strict=True)
    return all(want is None or not isinstance(got, int) or got == want for got, want in pairs)


def _written(shape: Any) -> str:
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
