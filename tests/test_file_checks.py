"""edgegpt.runtime.self_check: what a robot finds out about a file without PyTorch."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from helpers.tiny_files import graph, metadata, tiny_file, write_file
from onnx import helper

from edgegpt import contract
from edgegpt.errors import ArtifactError
from edgegpt.runtime.artifact import Artifact, open_artifact
from edgegpt.runtime.engine import Engine
from edgegpt.runtime.self_check import (
    causality,
    differing_tokens,
    evidence_limit,
    parity_failures,
    parity_summary,
    stepwise,
)

TARGETS = [contract.ENGINE, contract.PORTABLE]


def engine(path: Path) -> Engine:
    return Engine.from_artifact(open_artifact(path))


def stamped(folder: Path, **change: Any) -> Artifact:
    """A file whose evidence is good, but for the change."""
    limits = {"max_abs": 1e-4, "kl": 1e-6, "top1": 1.0, "consistency": 1e-4, "causality": 1e-6}
    rows = [{"length": 7, "max_abs": 0.0, "kl": 0.0, "top1": 1.0}]
    evidence = {
        "limits": limits,
        "rows": rows,
        "checks": {"causality": {"value": 0, "limit": 1e-6}},
        **change,
    }
    entries = {**metadata(), contract.META_EVIDENCE: json.dumps(evidence)}
    return open_artifact(write_file(folder / "stamped.onnx", graph(), entries))


def with_noise(model: onnx.ModelProto) -> onnx.ModelProto:
    """Noise of about the logits' own size is added to them."""
    nodes = model.graph.node
    (head,) = [node for node in nodes if "logits" in node.output]
    head.output[list(head.output).index("logits")] = "quiet"
    nodes.append(helper.make_node("RandomNormalLike", ["quiet"], ["noise"], scale=3.0))
    nodes.append(helper.make_node("Add", ["quiet", "noise"], ["logits"]))
    return model


# Through the engine


@pytest.mark.parametrize("target", TARGETS)
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
    path = write_file(tmp_path / "random.onnx", with_noise(graph()), metadata())
    assert differing_tokens(lambda: engine(path)) > 0


def test_losses_that_become_nan_are_never_within_a_limit() -> None:
    class Broken:
        capacity, n_valid = 20, 50

        def token_losses(self, ids: list[int]) -> np.ndarray:
            return np.full(len(ids) - 1, np.nan)

    assert not causality(Broken()) <= 1e9


# The stamped evidence


def test_good_evidence_has_no_failures(tmp_path: Path) -> None:
    artifact = stamped(tmp_path)
    assert parity_failures(artifact) == []
    assert "at lengths 7: KL divergence from PyTorch at most 0.0e+00" in parity_summary(artifact)


def row(**change: float) -> dict[str, Any]:
    return {"rows": [{"length": 7, "max_abs": 0.0, "kl": 0.0, "top1": 1.0, **change}]}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (row(max_abs=0.5), "length 7: the largest difference from PyTorch was 0.5"),
        (row(max_abs=float("nan")), "the largest difference from PyTorch was nan"),
        (row(kl=float("nan")), "the KL divergence from PyTorch was nan"),
        (row(top1=0.857), "the most likely token agreed at 85.70% of positions"),
        (row(top1=0.5), "the most likely token agreed at 50.00% of positions"),
        ({"checks": {"causality": {"value": 0.4, "limit": 1e-6}}}, "causality was 0.4, the limit is 1e-06"),
    ],
)
def test_evidence_beyond_its_own_limits_is_a_failure(
    tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    (failure,) = parity_failures(stamped(tmp_path, **change))
    assert sentence in failure


def test_weights_of_int8_file_are_judged_by_divergence_alone(tmp_path: Path) -> None:
    limits = {"max_abs": None, "kl": 0.01, "top1": 0.95, "consistency": 0.01, "causality": 1e-6}
    good = {"limits": limits, **row(max_abs=0.9, kl=0.009, top1=0.857)}  # one position in 7 may differ
    assert parity_failures(stamped(tmp_path, **good)) == []
    assert parity_failures(stamped(tmp_path, **{**good, **row(kl=0.02)}))
    assert parity_failures(stamped(tmp_path, **{**good, **row(top1=0.714)}))


ENDLESS = {"max_abs": None, "kl": 0.01, "top1": float("-inf")}
HUGE = {"causality": {"value": 10**400, "limit": 1e-6}}


@pytest.mark.parametrize(
    "change",
    [
        {"limits": None},
        {"limits": {}},
        {"limits": ENDLESS},
        {"rows": [1]},
        {"checks": None},
        {"checks": HUGE},
    ],
)
def test_evidence_that_cannot_be_read_is_damaged(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(ArtifactError, match="is damaged; export it again"):
        parity_failures(stamped(tmp_path, **change))


@pytest.mark.parametrize("limits", [None, {}, {"causality": None}, {"causality": "much"}, {"causality": []}])
def test_a_limit_that_cannot_be_read_is_damaged_evidence(tmp_path: Path, limits: Any) -> None:
    with pytest.raises(ArtifactError, match="is damaged; export it again"):
        evidence_limit(stamped(tmp_path, limits=limits), "causality")


def test_no_evidence_is_no_proof(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="holds no evidence of a verification against PyTorch"):
        parity_failures(open_artifact(tiny_file(tmp_path)))
