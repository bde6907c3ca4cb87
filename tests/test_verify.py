"""Verification measures what it says, and notices each way in which a file can be wrong."""

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
from conftest import random_gpt
from helpers.graphs import SMALL, engine_graph, model_and_graph, session_of, small
from onnx import TensorProto, helper, numpy_helper

from edgegpt.errors import ArtifactError, CheckpointError, VerificationError
from edgegpt.model.checkpoint import load_checkpoint, save_checkpoint
from edgegpt_export import export_checkpoint, verify_file
from edgegpt_export.bit_allocation import preset
from edgegpt.runtime import LIMITS, CheckResult, Evidence, ParityRow
from edgegpt_export.runner import compare, max_abs
from edgegpt_export.verify import verify

FP32 = LIMITS["fp32"]


@pytest.fixture
def graph() -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model_and_graph("engine")[1])
    return copy


@pytest.fixture
def measure(tmp_path):
    def run(graph: onnx.ModelProto, model=None, target: str = "engine") -> Evidence:
        path = tmp_path / "file.onnx"
        onnx.save(graph, str(path))
        model = model or model_and_graph("engine")[0]
        return verify(path, session_of(graph), model, target, preset(model.config, "fp32"))

    return run


@pytest.fixture(scope="module")
def tiny_file(tmp_path_factory, tiny_checkpoint):
    return export_checkpoint(tiny_checkpoint, tmp_path_factory.mktemp("verify") / "tiny.onnx").path


def weight(graph: onnx.ModelProto, name: str) -> TensorProto:
    return next(tensor for tensor in graph.graph.initializer if tensor.name == name)


def add_to_logits(graph: onnx.ModelProto, *nodes: onnx.NodeProto) -> None:
    """Append nodes that make `extra`, a scalar, and add it to the logits."""
    graph.graph.node[-1].output[0] = "/head"
    graph.graph.node.extend([*nodes, helper.make_node("Add", ["/head", "extra"], ["logits"])])


@pytest.mark.parametrize("target", ["engine", "portable"])
def test_a_right_file_passes_every_check(measure, target):
    model, graph = model_and_graph(target)
    evidence = measure(graph, model, target)
    assert evidence.failures == []
    assert [row.length for row in evidence.rows] == [1, 2, 7, 9, 10]
    assert all(row.max_abs < 1e-5 and row.top1 == 1.0 for row in evidence.rows)
    names = [check.name for check in evidence.checks]
    assert names == [
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
def test_any_context_length_can_be_verified(measure, block_size, lengths):
    model = random_gpt(small(block_size=block_size, n_layer=1))
    evidence = measure(engine_graph(model), model)
    assert evidence.failures == []
    assert [row.length for row in evidence.rows] == lengths


def test_a_changed_weight_is_noticed_with_its_number(measure, graph):
    tensor = weight(graph, "blocks.1.mlp.proj.weight")
    values = numpy_helper.to_array(tensor).copy()
    values[3, 5] += 0.5
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    evidence = measure(graph)
    worst = max(row.max_abs for row in evidence.rows)
    assert worst > 1e-3
    assert f"the largest difference from PyTorch is {worst:.3g}, the limit is 0.0001" in "; ".join(
        evidence.failures
    )


def test_a_nan_weight_is_noticed(measure, graph):
    tensor = weight(graph, "blocks.0.norm_1.bias")
    tensor.CopyFrom(numpy_helper.from_array(np.full(16, np.nan, np.float32), tensor.name))
    assert "the largest difference from PyTorch is nan" in measure(graph).failures[0]


def test_a_graph_that_reads_rows_of_the_buffer_beyond_the_tokens_is_noticed(measure, graph):
    add_to_logits(
        graph,
        helper.make_node("Identity", ["past_key_values.0.key"], ["keys"]),
        helper.make_node("ReduceSum", ["keys"], ["extra"], keepdims=0),
    )
    failed = {failure.split(":")[0] for failure in measure(graph).failures}
    assert failed == {"chunked = whole", "stepwise = whole", "batch = singles"}


def test_a_graph_whose_rows_of_a_batch_mix_is_noticed(measure, graph):
    add_to_logits(
        graph,
        helper.make_node("Shape", ["input_ids"], ["batch"], start=0, end=1),
        helper.make_node("Squeeze", ["batch"], ["batch_scalar"]),
        helper.make_node("Sub", ["batch_scalar", "one_row"], ["others"]),
        helper.make_node("Cast", ["others"], ["extra"], to=TensorProto.FLOAT),
    )
    graph.graph.initializer.append(numpy_helper.from_array(np.array(1, np.int64), "one_row"))
    assert [failure.split(":")[0] for failure in measure(graph).failures] == ["batch = singles"]


def test_a_second_copy_of_a_weight_is_noticed(measure, graph):
    graph.graph.initializer.append(numpy_helper.from_array(np.zeros((5, 3), np.float32), "copy"))
    (failure,) = measure(graph).failures
    assert failure.startswith("weight bytes: ")
    assert "60, the limit is 0" in failure


def test_a_weight_hidden_in_a_constant_or_of_another_type_is_noticed(measure, graph):
    hidden = numpy_helper.from_array(np.zeros((6, 4), np.float16))
    graph.graph.node.append(helper.make_node("Constant", [], ["hidden"], value=hidden))
    (failure,) = measure(graph).failures
    assert "48, the limit is 0" in failure


def test_dropout_is_noticed(measure, graph):
    graph.graph.node[-1].output[0] = "/head"
    graph.graph.node.append(helper.make_node("Dropout", ["/head"], ["logits"]))
    assert measure(graph).failures == [
        "operators: number of operators that are not of the engine target (Dropout): 1, the limit is 0"
    ]


def test_a_length_that_does_not_run_is_named(measure, graph):
    tensor = weight(graph, "wpe.weight")
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor)[:8], tensor.name))
    with pytest.raises(VerificationError, match="does not run on 9 tokens after 0"):
        measure(graph)


def test_the_module_s_modes_stay_as_they_are(measure, graph):
    model = random_gpt(SMALL).train()
    model.blocks[1].eval()
    before = [part.training for part in model.modules()]
    assert measure(graph, model).failures == []
    assert [part.training for part in model.modules()] == before


def test_an_exported_file_can_be_verified_again_with_the_same_numbers(tiny_file, tiny_checkpoint):
    steps = []
    evidence = verify_file(tiny_file, tiny_checkpoint, steps.append)
    assert evidence.failures == []
    assert "length 48" in steps
    assert verify_file(tiny_file, load_checkpoint(tiny_checkpoint)) == evidence


def test_a_file_of_other_weights_is_refused(tiny_file, tiny_config, tiny_tokenizer, tmp_path):
    save_checkpoint(tmp_path / "other", random_gpt(tiny_config, seed=1), tiny_tokenizer)
    with pytest.raises(VerificationError, match=r"exported from another checkpoint than .*other: the sha256"):
        verify_file(tiny_file, tmp_path / "other")


def test_a_file_of_another_config_with_the_same_weights_is_refused(
    tiny_file, tiny_config, tiny_gpt, tiny_tokenizer, tmp_path
):
    model = random_gpt(replace(tiny_config, n_head=4))
    model.load_state_dict(tiny_gpt.state_dict())
    save_checkpoint(tmp_path / "heads", model, tiny_tokenizer)
    with pytest.raises(VerificationError, match=r"another config than .*heads: n_head 2, here 4"):
        verify_file(tiny_file, tmp_path / "heads")


def test_bad_paths_are_refused_in_one_sentence(tiny_file, tiny_checkpoint, tmp_path):
    with pytest.raises(ArtifactError, match="does not exist"):
        verify_file(tmp_path / "none.onnx", tiny_checkpoint)
    with pytest.raises(CheckpointError, match="does not exist"):
        verify_file(tiny_file, tmp_path / "none")


def test_a_precision_without_limits_is_refused(tiny_file, tiny_checkpoint, tmp_path):
    model = onnx.load(str(tiny_file))
    del model.metadata_props[-1]  # the digest of what comes before it
    for entry in model.metadata_props:
        if entry.key == "edgegpt.precision":
            entry.value = "int2"
    onnx.save(model, str(tmp_path / "int2.onnx"))
    with pytest.raises(ArtifactError, match="weights of 'int2'"):
        verify_file(tmp_path / "int2.onnx", tiny_checkpoint)


def test_compare_gives_difference_divergence_and_agreement():
    reference = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]], np.float32))
    logits = np.log(np.array([[0.25, 0.5, 0.25], [0.1, 0.8, 0.1]], np.float32)) + np.float32(3)
    row = compare(reference, logits, tie=1e-4)
    assert row.length == 2
    assert row.max_abs == pytest.approx(3 + np.log(2))
    assert row.kl == pytest.approx((0.5 * np.log(2) - 0.25 * np.log(2)) / 2)
    assert row.top1 == 0.5


def test_tokens_that_pytorch_has_within_the_tolerance_count_as_agreement():
    reference = np.array([[1.0, 1.00005, 0.0]], np.float32)
    other = np.array([[1.0, 0.9, 0.0]], np.float32)
    assert compare(reference, other, tie=1e-4).top1 == 1.0
    assert compare(reference, other, tie=1e-5).top1 == 0.0


def test_differences_are_found_at_every_position_and_nan_is_kept():
    a = np.zeros((150, 3), np.float32)
    for position in (0, 63, 64, 149):
        b = a.copy()
        b[position, 1] = 2
        assert max_abs(a, b) == 2
        b[position, 1] = np.nan
        assert np.isnan(max_abs(a, b))
    assert max_abs(a[:0], a[:0]) == 0
    with pytest.raises(ValueError, match="shapes"):
        max_abs(a, a[:1])


def test_what_is_beyond_its_limit_becomes_a_sentence_with_both_numbers():
    evidence = Evidence(
        "engine",
        "fp32",
        FP32,
        (ParityRow(7, 0.5, 0.25, 0.5), ParityRow(8, 1e-5, 0.0, 1.0)),
        (CheckResult("causality", float("nan"), 1e-6, "it leaks"), CheckResult("operators", 0, 0, "none")),
    )
    assert evidence.failures == [
        "length 7: the largest difference from PyTorch is 0.5, the limit is 0.0001",
        "length 7: the KL divergence from PyTorch is 0.25, the limit is 1e-06",
        "length 7: the most likely token agrees at 50.00% of positions, the limit is 100%",
        "causality: it leaks: nan, the limit is 1e-06",
    ]


def test_evidence_is_compact_json():
    evidence = Evidence(
        "engine", "fp32", FP32, (ParityRow(7, 1.23456e-6, 0.0, 1.0),), (CheckResult("operators", 0, 0, "none"),)
    )
    document = json.loads(evidence.to_json())
    assert document["rows"] == [{"length": 7, "max_abs": 1.23e-6, "kl": 0.0, "top1": 1.0}]
    assert document["checks"] == {"operators": {"value": 0, "limit": 0}}
    assert document["limits"]["max_abs"] == 1e-4
    assert " " not in evidence.to_json().replace("operators", "")
