"""Tracing for the portable target: in eval mode and without output."""

import logging
import warnings
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import onnx
import pytest
import torch
from conftest import Refused
from helpers.graphs import mixed_modes, modes

from edgegpt.errors import EdgeGPTError
from edgegpt_export.portable import build_portable_graph


def test_tracing_is_silent_and_in_eval_mode_and_gives_every_submodule_its_own_mode_back(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    model, before = mixed_modes()
    seen: list[bool] = []

    def chatty(module: Any, *_args: Any, **_kwargs: Any) -> Any:
        seen.extend(modes(module))
        print("tracing")
        warnings.warn("chatter", stacklevel=1)
        logging.getLogger("torch.onnx").warning("more chatter")
        return SimpleNamespace(model_proto=onnx.ModelProto())

    monkeypatch.setattr(torch.onnx, "export", chatty)
    build_portable_graph(model)
    assert seen
    assert not any(seen)
    assert modes(model) == before
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list


def test_modes_come_back_when_tracing_fails(monkeypatch: pytest.MonkeyPatch, refused: Refused) -> None:
    model, before = mixed_modes()
    failing = Mock(side_effect=[RuntimeError("no such operator\nand more"), KeyboardInterrupt])
    monkeypatch.setattr(torch.onnx, "export", failing)
    with refused(EdgeGPTError, "no such operator"):
        build_portable_graph(model)
    assert modes(model) == before
    with pytest.raises(KeyboardInterrupt):
        build_portable_graph(model)
    assert modes(model) == before
