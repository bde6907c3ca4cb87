"""The portable target: torch.onnx.export of the PyTorch module, with standard operators only.

Built independently of `graph`, so it serves as a cross-check; any ONNX runtime can load it.
"""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from typing import Final

import torch
from onnx import ModelProto
from torch import Tensor, nn
from torch.export import Dim

from edgegpt.contract import INPUT_IDS, LOGITS, POSITION_IDS, past_names, present_names
from edgegpt.errors import EdgeGPTError, first_line
from edgegpt.model import GPT
from edgegpt_export.calibration import eval_mode

_PREFIX: Final = "model."  # prefix of parameter names, from the attribute of _Flat


class _Flat(nn.Module):
    """`GPT.forward_cached` with its cache as a flat list, in the order of the contract."""

    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, position_ids: Tensor, past: Sequence[Tensor]) -> tuple[Tensor, ...]:
        pairs = list(zip(past[::2], past[1::2], strict=True))
        logits, present = self.model.forward_cached(input_ids, position_ids, pairs)
        return logits, *(tensor for pair in present for tensor in pair)


def build_portable_graph(model: GPT) -> ModelProto:
    """Trace a model in eval mode; every submodule has its own train/eval mode again afterwards.

    Returns:
        A model with the inputs and outputs of `edgegpt.contract`, without metadata. Batch, sequence
        and past are dynamic, and past may be 0.

    Raises:
        EdgeGPTError: torch cannot export the model.
    """
    try:
        with eval_mode(model), torch.no_grad(), _quiet():
            traced = _trace(model)
    except Exception as e:  # the exporter raises many classes
        raise EdgeGPTError(
            f"torch {torch.__version__} cannot export the model: {type(e).__name__}: {first_line(e)}"
        ) from e
    _name_parameters(traced, model)
    _strip(traced)
    return traced


def _trace(model: GPT) -> ModelProto:
    config = model.config
    layers = range(config.n_layer)
    # Sizes of 0 and 1 would be traced as constants.
    batch, new, cached = 2, 2, 3
    past = [torch.zeros(batch, config.n_kv_head, cached, config.head_dim) for _ in range(2 * config.n_layer)]
    ids = torch.zeros(batch, new, dtype=torch.int64)
    positions = torch.arange(cached, cached + new).expand(batch, new)
    rows, columns = Dim("batch"), Dim("sequence")
    program = torch.onnx.export(
        _Flat(model).eval(),
        (ids, positions, past),
        dynamo=True,
        input_names=[INPUT_IDS, POSITION_IDS, *(name for i in layers for name in past_names(i))],
        output_names=[LOGITS, *(name for i in layers for name in present_names(i))],
        dynamic_shapes=(
            {0: rows, 1: columns},
            {0: rows, 1: columns},
            [{0: rows, 2: Dim("past")} for _ in past],
        ),
        # The file keeps every parameter as the checkpoint has it; runtimes fold and fuse at load.
        # The exporter's optimiser would store some transposed, and a small tied one twice.
        optimize=False,
        verbose=False,
    )
    if program is None:
        raise EdgeGPTError("torch.onnx.export returned nothing")
    return program.model_proto


def _name_parameters(traced: ModelProto, model: GPT) -> None:
    """Give initialisers the checkpoint's names where they hold a parameter as it is."""
    names = {f"{_PREFIX}{name}": name for name, _ in model.named_parameters()}
    if model.config.tie_embeddings:
        names[f"{_PREFIX}head.weight"] = "wte.weight"
    for tensor in traced.graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for node in traced.graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = names.get(name, name)


def _strip(traced: ModelProto) -> None:
    """Drop the tracer's notes: the file must not hold source lines and paths of this machine."""
    graph = traced.graph
    graph.ClearField("value_info")
    for part in (traced, graph, *graph.node, *graph.initializer, *graph.input, *graph.output):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the exporter's warnings, log lines and prints, about which a user can do nothing."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
