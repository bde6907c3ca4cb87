"""Model files of the tiny model for the runtime's tests, made without the export's verification."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from conftest import CORPUS, TINY as TINY, random_gpt

from edgegpt import contract
from edgegpt.config.model import ModelConfig
from edgegpt.model.gpt import GPT
from edgegpt.runtime.sampling import Logits
from edgegpt.tokenizer import Tokenizer
from edgegpt_export.graph import build_engine_graph
from edgegpt_export.portable import build_portable_graph


@cache
def gpt(config: ModelConfig = TINY) -> GPT:
    return random_gpt(config)


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.train(CORPUS * 4, vocab_size=270, split="words", mark_prompt_end=True)


@cache
def _graph(target: str, config: ModelConfig) -> bytes:
    if target == contract.PORTABLE:
        return bytes(build_portable_graph(gpt(config)).SerializeToString())
    weights = {name: tensor.numpy() for name, tensor in gpt(config).state_dict().items()}
    return bytes(build_engine_graph(config, weights).SerializeToString())


def graph(target: str = contract.ENGINE, config: ModelConfig = TINY) -> onnx.ModelProto:
    return onnx.load_from_string(_graph(target, config))


def metadata(target: str = contract.ENGINE, config: ModelConfig = TINY) -> dict[str, str]:
    return {
        contract.META_FORMAT_VERSION: str(contract.FORMAT_VERSION),
        contract.META_TARGET: target,
        contract.META_CONFIG: config.to_json(),
        contract.META_TOKENIZER: tokenizer().to_json(),
        contract.META_PRECISION: "fp32",
        contract.META_KV_CACHE: "fp32",
        contract.META_RECIPE: "{}",
        contract.META_WEIGHTS_SHA256: "0" * 64,
        contract.META_EVIDENCE: '{"top1": 1.0}',
        contract.META_SAMPLING: '{"temperature": 0.0, "max_new_tokens": 16}',
        contract.META_TOOL: "tests",
    }


def write_file(path: Path, model: onnx.ModelProto, entries: dict[str, str]) -> Path:
    for key, value in entries.items():
        model.metadata_props.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())
    return path


def tiny_file(folder: Path, target: str = contract.ENGINE, config: ModelConfig = TINY) -> Path:
    return write_file(folder / f"{target}.onnx", graph(target, config), metadata(target, config))


def torch_logits(ids: Sequence[int], config: ModelConfig = TINY) -> torch.Tensor:
    """Logits (V,) of the last token, recomputed whole by PyTorch."""
    return _torch_logits(tuple(ids), config)


@cache
@torch.no_grad()
def _torch_logits(ids: tuple[int, ...], config: ModelConfig) -> torch.Tensor:
    logits: torch.Tensor = gpt(config)(torch.tensor([ids]))[0, -1]
    return logits


def torch_greedy(ids: Sequence[int], n: int, config: ModelConfig = TINY) -> list[int]:
    """The next n ids, each from a full recompute."""
    new: list[int] = []
    for _ in range(n):
        new.append(int(torch_logits([*ids, *new], config)[: tokenizer().vocab_size].argmax()))
    return new


def assert_logits(logits: Logits | None, ids: Sequence[int]) -> None:
    """Those that PyTorch gives after the ids."""
    assert logits is not None
    np.testing.assert_allclose(logits, torch_logits(ids)[: len(logits)].numpy(), atol=1e-4, rtol=0)


def forbid(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the file be opened by none; tests may run as root, for whom every file is readable."""
    really_open = Path.open

    def refuse(self: Path, *args: Any, **kwargs: Any) -> Any:
        if self == path:
            raise PermissionError(13, "Permission denied")
        return really_open(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refuse)
