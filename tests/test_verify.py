"""Verification measures what it says, and notices each way in which a file can be wrong."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from conftest import random_gpt
from helpers.graphs import (
    SMALL,
    TARGETS,
    add_to_logits,
    copied_graph,
    engine_graph,
    failed,
    model_and_graph,
    small,
    verified,
)
from onnx import TensorProto, helper, numpy_helper

from edgegpt.config import ModelConfig
from edgegpt.errors import ArtifactError, CheckpointError, VerificationError
from edgegpt.model import GPT, load_checkpoint, save_checkpoint
from edgegpt.tokenizer import Tokenizer
from edgegpt_export import verify_file
from edgegpt_export.runner import compare, max_abs


@pytest.fixture
def graph() -> onnx.ModelProto:
    return copied_graph()


def weight(graph: onnx.ModelProto, name: str) -> TensorProto:
    return next(tensor for tensor in graph.graph.initializer if tensor.name == name)


@pytest.mark.parametrize("target", TARGETS)
def test_a_right_file_passes_every_check(tmp_path: Path, target: str) -> None:
    model, graph = model_and_graph(target)
    evidence = verified(tmp_path, graph, model, target)
    assert evidence.failures == []
    assert [row.length for row in evidence.rows] == [1, 2, 7, 9, 10]
    assert all(row.max_abs < 1e-5 and row.top1 == 1.0 for row in evidence.rows)
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
    assert evidence.failures == []
    assert [row.length for row in evidence.rows] == lengths


def test_a_changed_weight_is_noticed_with_its_number(tmp_path: Path, graph: onnx.ModelProto) -> None:
    tensor = weight(graph, "blocks.1.mlp.proj.weight")
    values = numpy_helper.to_array(tensor).copy()
    values[3, 5] += 0.5
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    evidence = verified(tmp_path, graph)
    worst = max(row.max_abs for row in evidence.rows)
    assert worst > 1e-3
    assert any(f"{worst:.3g}" in failure and "0.0001" in failure for failure in evidence.failures)


def test_a_nan_weight_is_noticed(tmp_path: Path, graph: onnx.ModelProto) -> None:
    tensor = weight(graph, "blocks.0.norm_1.bias")
    tensor.CopyFrom(numpy_helper.from_array(np.full(16, np.nan, np.float32), tensor.name))
    assert "nan" in verified(tmp_path, graph).failures[0]


def test_a_graph_that_reads_unused_rows_of_the_buffer_is_noticed(
    tmp_path: Path, graph: onnx.ModelProto
) -> None:
    add_to_logits(
        graph,
        helper.make_node("Identity", ["past_key_values.0.key"], ["keys"]),
        helper.make_node("ReduceSum", ["keys"], ["extra"], keepdims=0),
    )
    assert failed(verified(tmp_path, graph)) == ["chunked = whole", "stepwise = whole", "batch = singles"]


def test_a_graph_whose_rows_of_a_batch_mix_is_noticed(tmp_path: Path, graph: onnx.ModelProto) -> None:
    add_to_logits(
        graph,
        helper.make_node("Shape", ["input_ids"], ["batch"], start=0, end=1),
        helper.make_node("Squeeze", ["batch"], ["batch_scalar"]),
        helper.make_node("Sub", ["batch_scalar", "one_row"], ["others"]),
        helper.make_node("Cast", ["others"], ["extra"], to=TensorProto.FLOAT),
    )
    graph.graph.initializer.append(numpy_helper.from_array(np.array(1, np.int64), "one_row"))
    assert failed(verified(tmp_path, graph)) == ["batch = singles"]


def test_a_second_copy_of_a_weight_or_one_in_a_constant_is_noticed(
    tmp_path: Path, graph: onnx.ModelProto
) -> None:
    graph.graph.initializer.append(numpy_helper.from_array(np.zeros((5, 3), np.float32), "copy"))
    hidden = numpy_helper.from_array(np.zeros((6, 4), np.float16))
    graph.graph.node.append(helper.make_node("Constant", [], ["hidden"], value=hidden))
    evidence = verified(tmp_path, graph)
    assert failed(evidence) == ["weight bytes"]
    assert evidence.checks[0].value == 60 + 48


def test_dropout_is_noticed(tmp_path: Path, graph: onnx.ModelProto) -> None:
    graph.graph.node[-1].output[0] = "/head"
    graph.graph.node.append(helper.make_node("Dropout", ["/head"], ["logits"]))
    (failure,) = verified(tmp_path, graph).failures
    assert failure.startswith("operators:")
    assert "Dropout" in failure


def test_a_length_that_does_not_run_is_named(tmp_path: Path, graph: onnx.ModelProto, refused: Any) -> None:
    tensor = weight(graph, "wpe.weight")
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor)[:8], tensor.name))
    with refused(VerificationError, 9):
        verified(tmp_path, graph)


def test_the_module_s_modes_do_not_change(tmp_path: Path, graph: onnx.ModelProto) -> None:
    model = random_gpt(SMALL).train()
    model.blocks[1].eval()
    before = [part.training for part in model.modules()]
    assert verified(tmp_path, graph, model).failures == []
    assert [part.training for part in model.modules()] == before


def test_an_exported_file_can_be_verified_again_with_the_same_numbers(
    file: Path, tiny_checkpoint: Path
) -> None:
    steps: list[str] = []
    evidence = verify_file(file, tiny_checkpoint, steps.append)
    assert evidence.failures == []
    assert "length 48" in steps
    assert verify_file(file, load_checkpoint(tiny_checkpoint)) == evidence


def test_a_file_of_other_weights_is_refused(
    file: Path, tiny_config: ModelConfig, tiny_tokenizer: Tokenizer, tmp_path: Path, refused: Any
) -> None:
    other = tmp_path / "other"
    save_checkpoint(other, random_gpt(tiny_config, seed=1), tiny_tokenizer)
    with refused(VerificationError, file, other):
        verify_file(file, other)


def test_a_file_of_another_config_with_the_same_weights_is_refused(
    file: Path,
    tiny_config: ModelConfig,
    tiny_gpt: GPT,
    tiny_tokenizer: Tokenizer,
    tmp_path: Path,
    refused: Any,
) -> None:
    model = random_gpt(replace(tiny_config, n_head=4))
    model.load_state_dict(tiny_gpt.state_dict())
    heads = tmp_path / "heads"
    save_checkpoint(heads, model, tiny_tokenizer)
    with refused(VerificationError, heads, "n_head 2", 4):
        verify_file(file, heads)


def test_missing_paths_are_refused(file: Path, tiny_checkpoint: Path, tmp_path: Path, refused: Any) -> None:
    with refused(ArtifactError, tmp_path / "none.onnx"):
        verify_file(tmp_path / "none.onnx", tiny_checkpoint)
    with refused(CheckpointError, tmp_path / "none"):
        verify_file(file, tmp_path / "none")


def test_a_precision_without_limits_is_refused(
    file: Path, tiny_checkpoint: Path, tmp_path: Path, refused: Any
) -> None:
    model = onnx.load(str(file))
    del model.metadata_props[-1]  # the digest of what comes before it
    for entry in model.metadata_props:
        if entry.key == "edgegpt.precision":
            entry.value = "int2"
    onnx.save(model, str(tmp_path / "int2.onnx"))
    with refused(ArtifactError, "int2.onnx", "'int2'"):
        verify_file(tmp_path / "int2.onnx", tiny_checkpoint)


def test_compare_gives_difference_divergence_and_agreement() -> None:
    reference = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]], np.float32))
    logits = np.log(np.array([[0.25, 0.5, 0.25], [0.1, 0.8, 0.1]], np.float32)) + np.float32(3)
    row = compare(reference, logits, tie=1e-4)
    assert row.length == 2
    assert row.max_abs == pytest.approx(3 + np.log(2))
    assert row.kl == pytest.approx((0.5 * np.log(2) - 0.25 * np.log(2)) / 2)
    assert row.top1 == 0.5


def test_tokens_that_pytorch_has_within_the_tolerance_count_as_agreement() -> None:
    reference = np.array([[1.0, 1.00005, 0.0]], np.float32)
    other = np.array([[1.0, 0.9, 0.0]], np.float32)
    assert compare(reference, other, tie=1e-4).top1 == 1.0
    assert compare(reference, other, tie=1e-5).top1 == 0.0


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
