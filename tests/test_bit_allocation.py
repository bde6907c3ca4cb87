"""`--precision auto`: the search on numbers by hand, and whole exports within their limits."""

import json
import os
import threading

import pytest
from conftest import TINY
from hypothesis import given, settings, strategies as st

from edgegpt.errors import DataError, EdgeGPTError
from edgegpt.quantization import FLOAT, matrices, possible_bits, recipe, weight_bytes
from edgegpt.runtime.artifact import open_artifact
from edgegpt_export import export_checkpoint, verify_file
from edgegpt_export.bit_allocation import smallest_recipe, upgrades, within_bytes, within_kl


@st.composite
def sensitivities(draw):
    found = {}
    for name, (_, columns) in matrices(TINY).items():
        bits = possible_bits(name, columns)
        kl = sorted((draw(st.floats(1e-9, 1.0)) for _ in bits), reverse=True)
        found[name] = {**dict(zip(bits, kl, strict=True)), FLOAT: 0.0}
    return found


def summed(found, bits):
    return sum(found[name][few] for name, few in bits.items())


@given(sensitivities(), st.floats(0.0, 1.2))
@settings(max_examples=60)
def test_the_mix_fits_and_is_no_worse_than_the_smallest(found, share):
    small = weight_bytes(TINY, smallest_recipe(found))
    most = small + int(share * (weight_bytes(TINY, recipe(TINY, "fp32")) - small))
    bits = within_bytes(TINY, found, most)
    assert weight_bytes(TINY, bits) <= most
    assert summed(found, bits) <= summed(found, smallest_recipe(found))
    if share >= 1:
        assert bits == recipe(TINY, "fp32")


@given(sensitivities())
def test_steps_get_less_worthwhile_and_lead_to_float32(found):
    steps = upgrades(TINY, found)
    worth = [step.worth for step in steps]
    assert worth == sorted(worth, reverse=True)
    last = {step.name: step.bits for step in steps}  # within a matrix the order is upwards
    assert last == recipe(TINY, "fp32")


@given(sensitivities(), st.floats(1e-9, 3.0))
@settings(max_examples=60)
def test_the_mix_within_a_kl_is_on_the_way_and_few_are_measured(found, most):
    asked = []

    def measure(bits):
        asked.append(bits)
        return summed(found, bits)

    bits, kl = within_kl(TINY, found, most, measure)
    assert kl == summed(found, bits) <= most
    assert len(asked) <= len(upgrades(TINY, found)).bit_length() + 2


def test_a_limit_below_the_smallest_mix_is_refused():
    found = {name: {8: 0.1, FLOAT: 0.0} for name in matrices(TINY)}
    with pytest.raises(EdgeGPTError, match="the weights of the smallest mix take"):
        within_bytes(TINY, found, 10)


@pytest.mark.parametrize("limit", [{"max_mb": 0.13}, {"max_kl": 1e-4}, {"max_mb": 9.0}])
def test_an_export_keeps_its_limit_and_says_why(limit, tiny_checkpoint, tmp_path):
    path = tmp_path / "auto.onnx"
    report = export_checkpoint(tiny_checkpoint, path, precision="auto", **limit)
    artifact = open_artifact(path)
    assert artifact.precision == "auto"
    assert artifact.recipe["limit"] == limit
    assert artifact.recipe["bits"] == dict(report.quantisation.bits)
    assert artifact.recipe["measured_on"] == "8 sequences of text of the model's own"
    assert list(artifact.recipe["kl_of_one_matrix_alone"]) == list(matrices(TINY))
    if "max_mb" in limit:
        assert report.bytes <= limit["max_mb"] * 1e6
    else:
        assert 0 <= artifact.recipe["kl"] <= limit["max_kl"]
    assert verify_file(path, tiny_checkpoint).failures == []


def test_more_room_never_gives_a_worse_mix(tiny_checkpoint, tmp_path):
    found = []
    for megabytes in (0.12, 0.16, 0.2):
        report = export_checkpoint(tiny_checkpoint, tmp_path / "a.onnx", precision="auto", max_mb=megabytes)
        found.append(json.loads(report.quantisation.to_json())["kl"])
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"precision": "auto"}, r"needs one limit, max_mb .* or max_kl \(nats\), got none"),
        ({"precision": "auto", "max_mb": 1.0, "max_kl": 0.1}, "got max_mb and max_kl"),
        ({"precision": "int4", "max_mb": 1.0}, "max_mb is for precision auto, got int4"),
        ({"precision": "auto", "max_mb": 0.0}, "max_mb must be above 0, got 0"),
        ({"precision": "auto", "max_kl": -1.0}, "max_kl must be above 0, got -1"),
        ({"precision": "auto", "max_kl": float("nan")}, "max_kl must be above 0, got nan"),
        ({"precision": "auto", "max_mb": 0.01}, r"no mix of precisions fits into 0\.01 MB: the smallest"),
    ],
)
def test_limits_that_cannot_be_are_refused_in_a_sentence(asked, sentence, tiny_checkpoint, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(EdgeGPTError, match=sentence):
        export_checkpoint(tiny_checkpoint, out / "a.onnx", **asked)
    assert list(out.iterdir()) == []


PAIRS = '{"prompt": "go", "completion": "ab"}\n{"prompt": "stop", "completion": "c"}\n'


def test_answers_to_examples_are_part_of_the_evidence(tiny_checkpoint, tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_text(PAIRS)
    report = export_checkpoint(tiny_checkpoint, tmp_path / "a.onnx", precision="int8", data=data)
    check = report.evidence.checks[-1]
    assert (check.name, check.limit) == ("task accuracy", 0.5)
    assert "on 2 examples of data.jsonl: float32 has" in check.detail
    again = verify_file(tmp_path / "a.onnx", tiny_checkpoint, data=data).checks[-1]
    assert again == check


@pytest.mark.parametrize("text", ["", "no json\n", '{"prompt": "a"}\n'])
@pytest.mark.parametrize("precision", ["fp32", "auto"])
def test_bad_examples_are_refused(text, precision, tiny_checkpoint, tmp_path):
    data, out = tmp_path / "data.jsonl", tmp_path / "out"
    data.write_text(text)
    out.mkdir()
    limit = {"max_kl": 0.1} if precision == "auto" else {}
    with pytest.raises(DataError):
        export_checkpoint(tiny_checkpoint, out / "a.onnx", precision=precision, data=data, **limit)
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("asked", [{}, {"precision": "auto", "max_kl": 0.1}])
def test_an_example_longer_than_the_context_is_named_before_anything_is_built(
    asked, tiny_checkpoint, tmp_path
):
    data, steps = tmp_path / "data.jsonl", []
    data.write_text(PAIRS + "\n" + json.dumps({"prompt": "go " * 20, "completion": "ab"}) + "\n")
    out = tmp_path / "a.onnx"
    sentence = (
        r"data.jsonl, line 4: the prompt has 61 tokens and the completion 2, together 63, but the context"
    )
    with pytest.raises(DataError, match=sentence):
        export_checkpoint(tiny_checkpoint, out, data=data, on_step=steps.append, **asked)
    assert steps == [f"loading {tiny_checkpoint}"]
    export_checkpoint(tiny_checkpoint, out)
    with pytest.raises(DataError, match=sentence):
        verify_file(out, tiny_checkpoint, steps.append, data)
    assert steps == [f"loading {tiny_checkpoint}"]


def test_examples_may_come_through_a_pipe(tiny_checkpoint, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(PAIRS,), daemon=True)
    writer.start()
    report = export_checkpoint(tiny_checkpoint, tmp_path / "a.onnx", precision="auto", max_kl=0.1, data=pipe)
    writer.join()
    assert report.quantisation.why["measured_on"] == "2 sequences of pipe"
    assert "on 2 examples of pipe" in report.evidence.checks[-1].detail


def test_an_example_may_fill_the_context(tiny_checkpoint, tiny_tokenizer, tmp_path):
    data = tmp_path / "data.jsonl"
    room = 48 - len(tiny_tokenizer.encode_prompt("go"))
    for length in (room, room + 1):
        completion = "a" * length
        assert len(tiny_tokenizer.encode(completion)) == length
        data.write_text(json.dumps({"prompt": "go", "completion": completion}))
        if length == room:
            export_checkpoint(tiny_checkpoint, tmp_path / "a.onnx", data=data)
        else:
            with pytest.raises(DataError, match="line 1"):
                export_checkpoint(tiny_checkpoint, tmp_path / "b.onnx", data=data)
