"""edgegpt.runtime.self_check: what can be checked of a file without PyTorch."""

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from helpers.graphs import add_to_logits
from helpers.tiny_files import graph, metadata, tiny_file, write_file
from onnx import helper

from edgegpt import contract
from edgegpt.runtime import Engine, causality, differing_tokens, open_artifact, repeat_checks, stepwise


def engine(path: Path) -> Engine:
    return Engine.from_artifact(open_artifact(path))


@pytest.mark.parametrize("target", [contract.ENGINE, contract.PORTABLE])
def test_a_good_file_is_causal_deterministic_and_the_same_step_by_step(tmp_path: Path, target: str) -> None:
    path = tiny_file(tmp_path, target)
    assert causality(engine(path)) <= 1e-6
    assert stepwise(engine(path), by_kl=False) <= 1e-4
    assert stepwise(engine(path), by_kl=True) <= 1e-6
    assert differing_tokens(lambda: engine(path)) == 0


def test_attention_that_looks_ahead_is_noticed(tmp_path: Path) -> None:
    leaking = graph()
    for node in leaking.graph.node:
        if node.op_type == "GroupQueryAttention":
            node.attribute.append(helper.make_attribute("causal", 0))
    path = write_file(tmp_path / "leaking.onnx", leaking, metadata())
    assert causality(engine(path)) > 1e-3
    assert stepwise(engine(path), by_kl=False) > 1e-3


def test_a_random_operator_is_noticed(tmp_path: Path) -> None:
    noisy = graph()
    # Noise of about the logits' own size.
    noise = helper.make_node("RandomNormalLike", ["/head"], ["extra"], scale=3.0)
    add_to_logits(noisy, noise)
    path = write_file(tmp_path / "random.onnx", noisy, metadata())
    assert differing_tokens(lambda: engine(path)) > 0


def test_losses_that_become_nan_are_never_within_a_limit() -> None:
    broken = Mock(Engine, capacity=20, n_valid=50)
    broken.token_losses = lambda ids: np.full(len(ids) - 1, np.nan)
    assert not causality(broken) <= 1e9


def test_the_checks_are_repeated_within_the_limits_of_the_file(file: Path, int8_file: Path) -> None:
    for path, consistency in ((file, 1e-4), (int8_file, 0.01)):
        steps: list[str] = []
        checks = repeat_checks(open_artifact(path), 1, steps.append)
        assert [(check.name, check.limit) for check in checks] == [
            ("causality", 1e-6),
            ("stepwise = whole", consistency),
            ("determinism", 0),
        ]
        assert all(check.passed for check in checks)
        assert len(steps) == 3
