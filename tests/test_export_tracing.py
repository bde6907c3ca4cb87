"""Tracing for the portable target: in eval mode and without output."""

from types import SimpleNamespace
from typing import Any

import onnx
import pytest
import torch
from conftest import random_gpt
from helpers.graphs import SMALL, model_and_graph

from edgegpt.errors import EdgeGPTError
from edgegpt_export.portable import build_portable_graph


def raising(error: BaseException) -> Any:
    def fail(*_args: Any, **_kwargs: Any) -> None:
        raise error

    return fail


def mixed_modes() -> Any:
    model = random_gpt(SMALL).train()
    model.blocks[0].eval()
    return model, [part.training for part in model.modules()]


def test_tracing_happens_in_eval_mode_and_gives_every_submodule_its_own_mode_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, before = mixed_modes()
    seen: list[bool] = []

    def traced(module: Any, *_args: Any, **_kwargs: Any) -> Any:
        seen.extend(part.training for part in module.modules())
        return SimpleNamespace(model_proto=onnx.ModelProto())

    monkeypatch.setattr(torch.onnx, "export", traced)
    build_portable_graph(model)
    assert seen
    assert not any(seen)
    assert [part.training for part in model.modules()] == before


@pytest.mark.parametrize("error", [RuntimeError("no such operator\nand more"), KeyboardInterrupt()])
def test_modes_come_back_when_tracing_fails(error: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, before = mixed_modes()
    monkeypatch.setattr(torch.onnx, "export", raising(error))
    with pytest.raises((EdgeGPTError, KeyboardInterrupt)) as caught:
        build_portable_graph(model)
    assert [part.training for part in model.modules()] == before
    if isinstance(error, RuntimeError):
        assert "no such operator" in str(caught.value)
        assert "and more" not in str(caught.value)


def test_tracing_prints_nothing(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    def chatty(*_args: Any, **_kwargs: Any) -> Any:
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
