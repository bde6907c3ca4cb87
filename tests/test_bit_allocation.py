"""`--precision auto`: the search on given sensitivities, and whole exports within their limits."""

import json
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, Refused
from hypothesis import given, settings, strategies as st

from edgegpt.errors import DataError, EdgeGPTError
from edgegpt.quantization import FLOAT, matrices, possible_bits, recipe, weight_bytes
from edgegpt.runtime import open_artifact
from edgegpt.tokenizer import Tokenizer
from edgegpt_export import ExportReport, export_checkpoint, verify_file
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


PAIRS = '{"prompt": "go", "completion": "ab"}\n{"prompt": "stop", "completion": "c"}\n'
LONG = json.dumps({"prompt": "go " * 20, "completion": "ab"})
AUTO = {"precision": "auto", "max_kl": 0.1}


@pytest.fixture
def exported(tiny_checkpoint: Path, folder: Path) -> Callable[..., ExportReport]:
    """`exported(precision="auto", max_mb=9.0)` exports the tiny model into an empty folder."""
    return partial(export_checkpoint, tiny_checkpoint, folder / "a.onnx")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two examples."""
    (tmp_path / "data.jsonl").write_text(PAIRS)
    return tmp_path / "data.jsonl"


@pytest.mark.parametrize("limit", [{"max_mb": 0.13}, {"max_kl": 1e-4}, {"max_mb": 9.0}])
def test_an_export_keeps_its_limit_and_says_why(limit: Any, exported: Any, tiny_checkpoint: Path) -> None:
    report = exported(precision="auto", **limit)
    artifact = open_artifact(report.path)
    assert artifact.precision == "auto"
    assert artifact.recipe["limit"] == limit
    assert artifact.recipe["bits"] == dict(report.quantisation.bits)
    assert artifact.recipe["measured_on"].startswith("8 sequences")
    assert list(artifact.recipe["kl_of_one_matrix_alone"]) == list(matrices(TINY))
    assert report.bytes <= limit.get("max_mb", 9.0) * 1e6
    assert 0 <= artifact.recipe["kl"] <= limit.get("max_kl", 1.0)
    assert verify_file(report.path, tiny_checkpoint).failures == []


def test_more_room_never_gives_a_worse_recipe(exported: Any) -> None:
    reports = [exported(precision="auto", max_mb=megabytes) for megabytes in (0.12, 0.16, 0.2)]
    found = [report.quantisation.why["kl"] for report in reports]
    assert found == sorted(found, reverse=True)


def test_a_limit_below_the_smallest_weights_or_file_is_refused(
    exported: Any, folder: Path, refused: Refused
) -> None:
    found = {name: {8: 0.1, FLOAT: 0.0} for name in matrices(TINY)}
    with refused(EdgeGPTError, f"{weight_bytes(TINY, smallest_recipe(found)):,}"):
        within_bytes(TINY, found, 10)
    with refused(EdgeGPTError, 0.01):
        exported(precision="auto", max_mb=0.01)
    assert list(folder.iterdir()) == []


def test_answers_to_examples_are_part_of_the_verification(
    data: Path, exported: Any, tiny_checkpoint: Path
) -> None:
    report = exported(precision="int8", data=data)
    check = report.evidence.checks[-1]
    assert (check.name, check.limit) == ("task accuracy", 0.5)
    assert "2 examples of data.jsonl" in check.what
    assert verify_file(report.path, tiny_checkpoint, data=data).checks[-1] == check


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", []),
        (f"{PAIRS}no json\n", ["line 3"]),
        ('{"prompt": "a"}\n', ["line 1"]),
        (f"{PAIRS}\n{LONG}\n", ["line 4", 61, 2, 63]),
    ],
)
def test_examples_that_are_wrong_or_longer_than_the_context_are_named_before_anything_is_built(
    text: str, values: Any, data: Path, tiny_checkpoint: Path, file: Path, exported: Any, refused: Refused
) -> None:
    data.write_text(text)
    steps: list[str] = []
    for run in (
        lambda: exported(data=data, on_step=steps.append),
        lambda: exported(data=data, on_step=steps.append, **AUTO),
        lambda: verify_file(file, tiny_checkpoint, steps.append, data),
    ):
        with refused(DataError, "data.jsonl", *values):
            run()
    assert set(steps) == {f"loading {tiny_checkpoint}"}


def test_examples_may_come_through_a_pipe(exported: Any, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(PAIRS,), daemon=True)
    writer.start()
    report = exported(data=pipe, **AUTO)
    writer.join()
    assert {"2", "pipe"} <= set(report.quantisation.why["measured_on"].split())
    assert "2 examples of pipe" in report.evidence.checks[-1].what


def test_an_example_may_fill_the_context(
    data: Path, exported: Any, tiny_tokenizer: Tokenizer, refused: Refused
) -> None:
    room = 48 - len(tiny_tokenizer.encode_prompt("go"))
    completion = "a" * room
    assert len(tiny_tokenizer.encode(completion)) == room
    data.write_text(json.dumps({"prompt": "go", "completion": completion}))
    exported(data=data)
    data.write_text(json.dumps({"prompt": "go", "completion": completion + "a"}))
    with refused(DataError, "line 1"):
        exported(data=data)
