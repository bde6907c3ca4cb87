"""Both ONNX targets of small random models, built once in a test run, and what verification says of one."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch
from conftest import random_gpt

from edgegpt.config import ModelConfig
from edgegpt.contract import ENGINE
from edgegpt.model import GPT
from edgegpt.runtime import Evidence
from edgegpt_export.bit_allocation import preset
from edgegpt_export.graph import build_engine_graph
from edgegpt_export.portable import build_portable_graph
from edgegpt_export.verify import verify

SMALL = ModelConfig(vocab_size=40, block_size=10, n_layer=2, n_head=2, n_embd=16, dropout=0.1)
TARGETS = ["engine", "portable"]


def small(**changes: Any) -> ModelConfig:
    return replace(SMALL, **changes)


def engine_graph(model: GPT) -> onnx.ModelProto:
    return build_engine_graph(model.config, {name: t.numpy() for name, t in model.state_dict().items()})


@cache
def model_and_graph(target: str, config: ModelConfig = SMALL) -> tuple[GPT, onnx.ModelProto]:
    """A random model and its graph; both are shared, so a test that changes one copies it first."""
    model = random_gpt(config)
    return model, engine_graph(model) if target == ENGINE else build_portable_graph(model)


def copied_graph() -> onnx.ModelProto:
    """Return a copy of the engine target, for a test to damage."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model_and_graph(ENGINE)[1])
    return copy


def mixed_modes() -> tuple[GPT, list[bool]]:
    """Return a model in train mode but for one block, and the mode of each of its modules."""
    model = random_gpt(SMALL).train()
    model.blocks[0].eval()
    return model, modes(model)


def modes(model: GPT) -> list[bool]:
    return [part.training for part in model.modules()]


def add_to_logits(graph: onnx.ModelProto, *nodes: onnx.NodeProto) -> None:
    """Append nodes that make `extra`, and add it to the logits."""
    graph.graph.node[-1].output[0] = "/head"
    last = onnx.helper.make_node("Add", ["/head", "extra"], ["logits"])
    graph.graph.node.extend([*nodes, last])


def verified(
    folder: Path, graph: onnx.ModelProto, model: GPT | None = None, target: str = ENGINE
) -> Evidence:
    """Verify a graph as a float32 file against a model, the one of `model_and_graph` unless given."""
    path = folder / "file.onnx"
    onnx.save(graph, str(path))
    model = model or model_and_graph(ENGINE)[0]
    return verify(path, session_of(graph), model, target, preset(model.config, "fp32"))


def failed(evidence: Evidence) -> list[str]:
    """Return the names of the checks that failed, or the length for parity."""
    return [failure.split(":")[0] for failure in evidence.failures]


def session_of(graph: onnx.ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])


def optimised(model: Path | bytes, folder: Path) -> onnx.ModelProto:
    """Return the graph that onnxruntime makes of a file or of its bytes."""
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    options.log_severity_level = 4
    ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return onnx.load(options.optimized_model_filepath)


def random_ids(config: ModelConfig, batch: int = 1, length: int | None = None, seed: int = 0) -> Any:
    size = (batch, length or config.block_size)
    return np.random.default_rng(seed).integers(config.vocab_size, size=size)


def torch_logits(model: GPT, ids: Any) -> Any:
    with torch.no_grad():
        return model(torch.from_numpy(ids)).numpy()
