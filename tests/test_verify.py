"""Verification measures what it says, and notices each way in which a file can be wrong."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import Refused, random_gpt
from helpers.graphs import (
    TARGETS,
    add_to_logits,
    copied_graph,
    engine_graph,
    failed,
    mixed_modes,
    model_and_graph,
    modes,
    small,
    verified,
)
from onnx import ModelProto, TensorProto, helper, numpy_helper

from edgegpt.config import ModelConfig
from edgegpt.errors import ArtifactError, CheckpointError, VerificationError
from edgegpt.model import GPT, load_checkpoint, save_checkpoint
from edgegpt.runtime import Evidence
from edgegpt.tokenizer import Tokenizer
from edgegpt_export import verify_file
from edgegpt_export.runner import compare, max_abs


def change(graph: ModelProto, name: str, edit: Callable[[np.ndarray], np.ndarray]) -> None:
    """Replace a weight."""
    tensor = next(tensor for tensor in graph.graph.initializer if tensor.name == name)
    values = edit(numpy_helper.to_array(tensor).copy())
    tensor.CopyFrom(numpy_helper.from_array(values, name))


def passes(evidence: Evidence) -> bool:
    return not evidence.failures and all(row.max_abs < 1e-5 and row.top1 == 1.0 for row in evidence.rows)


@pytest.mark.parametrize("target", TARGETS)
def test_a_right_file_passes_every_check_and_the_module_keeps_its_modes(tmp_path: Path, target: str) -> None:
    model, before = mixed_modes()
    evidence = verified(tmp_path, model_and_graph(target)[1], model, target)
    assert passes(evidence)
    assert modes(model) == before
    assert [check.name for check in evidence.checks] == [
        "weight bytes",
        "precision",
        "operators",
        "causality",
        "chunked = whole",
        "stepwise = whole",
        "batch = singles",
    ]


@pytest.mark.parametrize(
    ("block_size", "lengths"),
    [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (8, [1, 2, 7, 8]), (150, [1, 2, 7, 149, 150])],
)
def test_any_context_length_can_be_verified(tmp_path: Path, block_size: int, lengths: list[int]) -> None:
    model = random_gpt(small(block_size=block_size, n_layer=1))
    evidence = verified(tmp_path, engine_graph(model), model)
    assert passes(evidence)
    assert [row.length for row in evidence.rows] == lengths


def test_a_changed_weight_is_noticed_with_its_number(tmp_path: Path) -> None:
    def one_number(weight: np.ndarray) -> np.ndarray:
        weight[3, 5] += 0.5
        return weight

    graph = copied_graph()
    change(graph, "blocks.1.mlp.proj.weight", one_number)
    evidence = verified(tmp_path, graph)
    worst = max(row.max_abs for row in evidence.rows)
    assert worst > 1e-3
    assert any(f"{worst:.3g}" in failure and "0.0001" in failure for failure in evidence.failures)


def read_unused_rows(graph: ModelProto) -> None:
    add_to_logits(
        graph,
        helper.make_node("Identity", ["past_key_values.0.key"], ["keys"]),
        helper.make_node("ReduceSum", ["keys"], ["extra"], keepdims=0),
    )


def mix_rows_of_a_batch(graph: ModelProto) -> None:
    add_to_logits(
        graph,
        helper.make_node("Shape", ["input_ids"], ["batch"], start=0, end=1),
        helper.make_node("Squeeze", ["batch"], ["batch_scalar"]),
        helper.make_node("Sub", ["batch_scalar", "one_row"], ["others"]),
        helper.make_node("Cast", ["others"], ["extra"], to=TensorProto.FLOAT),
    )
    graph.graph.initializer.append(numpy_helper.from_array(np.array(1, np.int64), "one_row"))


def store_weights_twice(graph: ModelProto) -> None:
    """Add 60 bytes of weights, and 48 in a constant."""
    graph.graph.initializer.append(numpy_helper.from_array(np.zeros((5, 3), np.float32), "copy"))
    hidden = numpy_helper.from_array(np.zeros((6, 4), np.float16))
    graph.graph.node.append(helper.make_node("Constant", [], ["hidden"], value=hidden))


def add_dropout(graph: ModelProto) -> None:
    graph.graph.node[-1].output[0] = "/head"
    graph.graph.node.append(helper.make_node("Dropout", ["/head"], ["logits"]))


def make_nan(graph: ModelProto) -> None:
    change(graph, "blocks.0.norm_1.bias", lambda bias: np.full_like(bias, np.nan))


@pytest.mark.parametrize(
    ("damage", "noticed", "value"),
    [
        (read_unused_rows, ["chunked = whole", "stepwise = whole", "batch = singles"], ""),
        (mix_rows_of_a_batch, ["batch = singles"], ""),
        (store_weights_twice, ["weight bytes"], "108"),
        (add_dropout, ["operators"], "Dropout"),
        (make_nan, None, "nan"),
    ],
)
def test_a_wrong_graph_is_noticed_by_the_checks_that_it_breaks(
    damage: Callable[[ModelProto], None], noticed: list[str] | None, value: str, tmp_path: Path
) -> None:
    graph = copied_graph()
    damage(graph)
    evidence = verified(tmp_path, graph)
    assert noticed in (None, failed(evidence))
    assert value in evidence.failures[0]


def test_a_length_that_does_not_run_is_named(tmp_path: Path, refused: Refused) -> None:
    graph = copied_graph()
    change(graph, "wpe.weight", lambda weight: weight[:8])
    with refused(VerificationError, 9):
        verified(tmp_path, graph)


def test_an_exported_file_can_be_verified_again_with_the_same_numbers(
    file: Path, tiny_checkpoint: Path
) -> None:
    steps: list[str] = []
    evidence = verify_file(file, tiny_checkpoint, steps.append)
    assert evidence.failures == []
    assert "length 48" in steps
    assert verify_file(file, load_checkpoint(tiny_checkpoint)) == evidence


def test_a_file_of_other_weights_or_another_config_is_refused(
    file: Path,
    tiny_config: ModelConfig,
    tiny_gpt: GPT,
    tiny_tokenizer: Tokenizer,
    tmp_path: Path,
    refused: Refused,
) -> None:
    weights, heads = tmp_path / "weights", tmp_path / "heads"
    save_checkpoint(weights, random_gpt(tiny_config, seed=1), tiny_tokenizer)
    with refused(VerificationError, file, weights):
        verify_file(file, weights)
    model = random_gpt(replace(tiny_config, n_head=4))
    model.load_state_dict(tiny_gpt.state_dict())
    save_checkpoint(heads, model, tiny_tokenizer)
    with refused(VerificationError, heads, "n_head 2", 4):
        verify_file(file, heads)


def test_compare_gives_difference_divergence_and_agreement() -> None:
    reference = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]], np.float32))
    logits = np.log(np.array([[0.25, 0.5, 0.25], [0.1, 0.8, 0.1]], np.float32)) + np.float32(3)
    row = compare(reference, logits, tie=1e-4)
    assert row.length == 2
    assert row.max_abs == pytest.approx(3 + np.log(2))
    assert row.kl == pytest.approx((0.5 * np.log(2) - 0.25 * np.log(2)) / 2)
    assert row.top1 == 0.5
    # Tokens that PyTorch has within the tolerance count as agreement.
    nearly = np.array([[1.0, 1.00005, 0.0]], np.float32)
    other = np.array([[1.0, 0.9, 0.0]], np.float32)
    assert [compare(nearly, other, tie).top1 for tie in (1e-4, 1e-5)] == [1.0, 0.0]


def test_differences_are_found_at_every_position_and_nan_is_kept() -> None:
    a = np.zeros((150, 3), np.float32)
    for position in (0, 63, 64, 149):
        b = a.copy()
        b[position, 1] = 2
        assert max_abs(a, b) == 2
        b[position, 1] = np.nan
        assert np.isnan(max_abs(a, b))
    assert max_abs(a[:0], a[:0]) == 0
    with pytest.raises(ValueError, match=r"\(150, 3\).*\(1, 3\)"):
        max_abs(a, a[:1])


def test_a_missing_file_and_a_missing_checkpoint_are_refused(
    file: Path, checkpoint: Path, tmp_path: Path, refused: Refused
) -> None:
    with refused(ArtifactError, tmp_path / "none.onnx"):
        verify_file(tmp_path / "none.onnx", checkpoint)
    with refused(CheckpointError, tmp_path / "none"):
        verify_file(file, tmp_path / "none")
