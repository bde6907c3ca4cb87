"""Tracing for the portable target: eval mode, and nothing said."""

from types import SimpleNamespace

import onnx
import pytest
import torch
from conftest import random_gpt
from helpers.graphs import SMALL, model_and_graph

from edgegpt.errors import (
    EdgeGPTError,
)
from edgegpt_export.portable import build_portable_graph


def raising(error: BaseException):
    def fail(*_args, **_kwargs):
        raise error

    return fail


def mixed_modes():
    model = random_gpt(SMALL).train()
    model.blocks[0].eval()
    return model, [part.training for part in model.modules()]


def test_tracing_happens_in_eval_mode_and_gives_every_submodule_its_own_mode_back(monkeypatch):
    model, before = mixed_modes()
    seen = []

    def traced(module, *_args, **_kwargs):
        seen.extend(part.training for part in module.modules())
        return SimpleNamespace(model_proto=onnx.ModelProto())

    monkeypatch.setattr(torch.onnx, "export", traced)
    build_portable_graph(model)
    assert seen
    assert not any(seen)
    assert [part.training for part in model.modules()] == before


@pytest.mark.parametrize("error", [RuntimeError("no such operator\nand more"), KeyboardInterrupt()])
def test_modes_come_back_when_tracing_fails(error, monkeypatch):
    model, before = mixed_modes()
    monkeypatch.setattr(torch.onnx, "export", raising(error))
    with pytest.raises((EdgeGPTError, KeyboardInterrupt)) as caught:
        build_portable_graph(model)
    assert [part.training for part in model.modules()] == before
    if isinstance(error, RuntimeError):
        assert str(caught.value).endswith("cannot export the model: RuntimeError: no such operator")


def test_tracing_says_nothing(capfd, monkeypatch, recwarn):
    def chatty(*_args, **_kwargs):
        import logging
        import warnings

        print("tracing")
        warnings.warn("chatter", stacklevel=1)
        logging.getLogger("torch.onnx").warning("more chatter")
        return SimpleNamespace(model_proto=onnx.ModelProto())

    monkeypatch.setattr(torch.onnx, "export", chatty)
    build_portable_graph(model_and_graph("engine")[0])
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list
