"""`--precision auto`: the search on given sensitivities, and whole exports within their limits."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY
from hypothesis import given, settings, strategies as st

from edgegpt.errors import DataError, EdgeGPTError
from edgegpt.quantization import FLOAT, matrices, possible_bits, recipe, weight_bytes
from edgegpt.runtime import open_artifact
from edgegpt.tokenizer import Tokenizer
from edgegpt_export import export_checkpoint, verify_file
from edgegpt_export.bit_allocation import smallest_recipe, upgrades, within_bytes, within_kl


@st.composite
def sensitivities(draw: st.DrawFn) -> Any:
    found = {}
    for name, (_, columns) in matrices(TINY).items():
        bits = possible_bits(name, columns)
        kl = sorted((draw(st.floats(1e-9, 1.0)) for _ in bits), reverse=True)
        found[name] = {**dict(zip(bits, kl, strict=True)), FLOAT: 0.0}
    return found


def summed(found: Any, bits: Any) -> Any:
    return sum(found[name][number] for name, number in bits.items())


@given(sensitivities(), st.floats(0.0, 1.2))
@settings(max_examples=60)
def test_the_recipe_fits_and_is_no_worse_than_the_smallest(found: Any, share: float) -> None:
    small = weight_bytes(TINY, smallest_recipe(found))
    most = small + int(share * (weight_bytes(TINY, recipe(TINY, "fp32")) - small))
    bits = within_bytes(TINY, found, most)
    assert weight_bytes(TINY, bits) <= most
    assert summed(found, bits) <= summed(found, smallest_recipe(found))
    if share >= 1:
        assert bits == recipe(TINY, "fp32")


@given(sensitivities())
def test_steps_gain_less_and_less_and_lead_to_float32(found: Any) -> None:
    steps = upgrades(TINY, found)
    gains = [step.gain for step in steps]
    assert gains == sorted(gains, reverse=True)
    last = {step.name: step.bits for step in steps}  # within a matrix the order is upwards
    assert last == recipe(TINY, "fp32")


@given(sensitivities(), st.floats(1e-9, 3.0))
@settings(max_examples=60)
def test_the_recipe_within_a_kl_is_found_by_few_measurements(found: Any, most: float) -> None:
    asked = []

    def measure(bits: Any) -> Any:
        asked.append(bits)
        return summed(found, bits)

    bits, kl = within_kl(TINY, found, most, measure)
    assert kl == summed(found, bits) <= most
    assert len(asked) <= len(upgrades(TINY, found)).bit_length() + 2


def test_a_limit_below_the_smallest_weights_is_refused(refused: Any) -> None:
    found = {name: {8: 0.1, FLOAT: 0.0} for name in matrices(TINY)}
    with refused(EdgeGPTError, f"{weight_bytes(TINY, smallest_recipe(found)):,}"):
        within_bytes(TINY, found, 10)


@pytest.mark.parametrize("limit", [{"max_mb": 0.13}, {"max_kl": 1e-4}, {"max_mb": 9.0}])
def test_an_export_keeps_its_limit_and_says_why(limit: Any, tiny_checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "auto.onnx"
    report = export_checkpoint(tiny_checkpoint, path, precision="auto", **limit)
    artifact = open_artifact(path)
    assert artifact.precision == "auto"
    assert artifact.recipe["limit"] == limit
    assert artifact.recipe["bits"] == dict(report.quantisation.bits)
    assert artifact.recipe["measured_on"].startswith("8 sequences")
    assert list(artifact.recipe["kl_of_one_matrix_alone"]) == list(matrices(TINY))
    if "max_mb" in limit:
        assert report.bytes <= limit["max_mb"] * 1e6
    else:
        assert 0 <= artifact.recipe["kl"] <= limit["max_kl"]
    assert verify_file(path, tiny_checkpoint).failures == []


def test_more_room_never_gives_a_worse_recipe(tiny_checkpoint: Path, tmp_path: Path) -> None:
    found = []
    for megabytes in (0.12, 0.16, 0.2):
        report = export_checkpoint(tiny_checkpoint, tmp_path / "a.onnx", precision="auto", max_mb=megabytes)
        found.append(json.loads(report.quantisation.to_json())["kl"])
    assert found == sorted(found, reverse=True)


def test_a_limit_below_the_smallest_file_is_refused(
    tiny_checkpoint: Path, tmp_path: Path, refused: Any
) -> None:
    with refused(EdgeGPTError, 0.01):
        export_checkpoint(tiny_checkpoint, tmp_path / "a.onnx", precision="auto", max_mb=0.01)
    assert list(tmp_path.iterdir()) == []


PAIRS = '{"prompt": "go", "completion": "ab"}\n{"prompt": "stop", "completion": "c"}\n'


def test_answers_to_examples_are_part_of_the_verification(tiny_checkpoint: Path, tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text(PAIRS)
    report = export_checkpoint(tiny_checkpoint, tmp_path / "a.onnx", precision="int8", data=data)
    check = report.evidence.checks[-1]
    assert (check.name, check.limit) == ("task accuracy", 0.5)
    assert "2 examples of data.jsonl" in check.what
    again = verify_file(tmp_path / "a.onnx", tiny_checkpoint, data=data).checks[-1]
    assert again == check


@pytest.mark.parametrize("text", ["", "no json\n", '{"prompt": "a"}\n'])
@pytest.mark.parametrize("precision", ["fp32", "auto"])
def test_bad_examples_are_refused(text: str, precision: str, tiny_checkpoint: Path, tmp_path: Path) -> None:
    data, out = tmp_path / "data.jsonl", tmp_path / "out"
    data.write_text(text)
    out.mkdir()
    limit = {"max_kl": 0.1} if precision == "auto" else {}
    with pytest.raises(DataError):
        export_checkpoint(tiny_checkpoint, out / "a.onnx", precision=precision, data=data, **limit)
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("asked", [{}, {"precision": "auto", "max_kl": 0.1}])
def test_an_example_longer_than_the_context_is_named_before_anything_is_built(
    asked: Any, tiny_checkpoint: Path, tmp_path: Path, refused: Any
) -> None:
    data = tmp_path / "data.jsonl"
    steps: list[str] = []
    data.write_text(PAIRS + "\n" + json.dumps({"prompt": "go " * 20, "completion": "ab"}) + "\n")
    out = tmp_path / "a.onnx"
    with refused(DataError, "data.jsonl", "line 4", 61, 2, 63):
        export_checkpoint(tiny_checkpoint, out, data=data, on_step=steps.append, **asked)
    assert steps == [f"loading {tiny_checkpoint}"]
    export_checkpoint(tiny_checkpoint, out)
    with refused(DataError, "data.jsonl", "line 4", 63):
        verify_file(out, tiny_checkpoint, steps.append, data)
    assert steps == [f"loading {tiny_checkpoint}"]


def test_examples_may_come_through_a_pipe(tiny_checkpoint: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(PAIRS,), daemon=True)
    writer.start()
    report = export_checkpoint(tiny_checkpoint, tmp_path / "a.onnx", precision="auto", max_kl=0.1, data=pipe)
    writer.join()
    assert {"2", "pipe"} <= set(report.quantisation.why["measured_on"].split())
    assert "2 examples of pipe" in report.evidence.checks[-1].what


def test_an_example_may_fill_the_context(
    tiny_checkpoint: Path, tiny_tokenizer: Tokenizer, tmp_path: Path, refused: Any
) -> None:
    data = tmp_path / "data.jsonl"
    room = 48 - len(tiny_tokenizer.encode_prompt("go"))
    for length in (room, room + 1):
        completion = "a" * length
        assert len(tiny_tokenizer.encode(completion)) == length
        data.write_text(json.dumps({"prompt": "go", "completion": completion}))
        if length == room:
            export_checkpoint(tiny_checkpoint, tmp_path / "a.onnx", data=data)
        else:
            with refused(DataError, "line 1"):
                export_checkpoint(tiny_checkpoint, tmp_path / "b.onnx", data=data)
