"""Both ONNX targets of small random models, built once a test run for the tests that read them."""

from dataclasses import replace
from functools import cache

import numpy as np
import onnx
import onnxruntime as ort
import torch
from conftest import random_gpt

from edgegpt.config.model import ModelConfig
from edgegpt.contract import ENGINE
from edgegpt.model.gpt import GPT
from edgegpt_export.graph import build_engine_graph
from edgegpt_export.portable import build_portable_graph

SMALL = ModelConfig(vocab_size=40, block_size=10, n_layer=2, n_head=2, n_embd=16, dropout=0.1)
TARGETS = ["engine", "portable"]


def small(**changes) -> ModelConfig:
    return replace(SMALL, **changes)


def engine_graph(model: GPT) -> onnx.ModelProto:
    return build_engine_graph(model.config, {name: t.numpy() for name, t in model.state_dict().items()})


@cache
def model_and_graph(target: str, config: ModelConfig = SMALL) -> tuple[GPT, onnx.ModelProto]:
    """A random model and its graph; both are shared, so a test that changes one copies it first."""
    model = random_gpt(config)
    return model, engine_graph(model) if target == ENGINE else build_portable_graph(model)


def session_of(graph: onnx.ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])


def random_ids(config: ModelConfig, batch: int = 1, length: int | None = None, seed: int = 0) -> np.ndarray:
    size = (batch, length or config.block_size)
    return np.random.default_rng(seed).integers(config.vocab_size, size=size)


def torch_logits(model: GPT, ids: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return model(torch.from_numpy(ids)).numpy()
