"""A token must not know what comes after it: in PyTorch, in both graphs, and a leak is noticed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.graphs import (
    SMALL,
    TARGETS,
    add_to_logits,
    copied_graph,
    failed,
    model_and_graph,
    random_ids,
    session_of,
    verified,
)
from onnx import TensorProto, helper, numpy_helper

from edgegpt_export.runner import GrowingCache


def test_no_gradient_flows_from_a_logit_to_a_later_token() -> None:
    model, _ = model_and_graph("engine")
    for position in range(SMALL.block_size):
        seen: list[torch.Tensor] = []
        hook = model.wte.register_forward_hook(lambda _m, _i, out, seen=seen: seen.append(out) or out)
        logits = model(torch.from_numpy(random_ids(SMALL)))
        hook.remove()
        (gradient,) = torch.autograd.grad(logits[0, position].square().sum(), seen[0])
        assert gradient[0, position + 1 :].abs().sum() == 0
        assert (gradient[0, : position + 1].abs().sum(-1) > 0).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("cached", [0, 1], ids=["whole", "continuing a cache"])
@pytest.mark.parametrize("cut", range(1, SMALL.block_size))
def test_changing_a_later_token_leaves_earlier_logits_of_the_file_alone(
    target: str, cached: int, cut: int
) -> None:
    session = session_of(model_and_graph(target)[1])

    def logits(ids: Any) -> Any:
        cache = GrowingCache(session, SMALL, batch=1)
        return np.concatenate([cache.feed(part) for part in np.split(ids, [cached], axis=1) if part.size], 1)

    ids = random_ids(SMALL)
    changed = ids.copy()
    changed[:, cut:] = (changed[:, cut:] + 7) % SMALL.vocab_size
    before, after = logits(ids), logits(changed)
    np.testing.assert_allclose(after[:, :cut], before[:, :cut], atol=1e-6, rtol=0)
    assert np.abs(after[:, cut:] - before[:, cut:]).max() > 0.01


def test_verification_notices_attention_that_is_not_causal(tmp_path: Path) -> None:
    leaking = copied_graph()
    for node in leaking.graph.node:
        if node.op_type == "GroupQueryAttention":
            node.attribute.append(helper.make_attribute("causal", 0))
    assert "causality" in failed(verified(tmp_path, leaking))


def test_verification_notices_a_leak_far_below_the_parity_limit(tmp_path: Path) -> None:
    leaking = copied_graph()
    add_to_logits(  # up to 8e-5 is added to every logit, by the last id of the prompt
        leaking,
        helper.make_node("Gather", ["input_ids", "minus_one"], ["last"], axis=1),  # (B, 1, 1)
        helper.make_node("Cast", ["last"], ["last_float"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["last_float", "tiny"], ["extra"]),
    )
    for name, value in (("tiny", np.array(2e-6, np.float32)), ("minus_one", np.array([[-1]]))):
        leaking.graph.initializer.append(numpy_helper.from_array(value, name))
    assert failed(verified(tmp_path, leaking)) == ["causality"]
