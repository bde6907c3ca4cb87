"""edgegpt.runtime.evidence: what fails, and that a file gives back what was measured."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Refused
from helpers.tiny_files import graph, metadata, write_file

from edgegpt import contract
from edgegpt.errors import ArtifactError
from edgegpt.runtime import (
    LIMITS,
    Artifact,
    CheckResult,
    Evidence,
    ParityRow,
    open_artifact,
    read_evidence,
)
from edgegpt.runtime.evidence import three_digits

FP32, INT8 = LIMITS["fp32"], LIMITS["int8"]
ROW, CHECK = ParityRow(7, 1.23456e-6, 0.0, 1.0), CheckResult("causality", 0, 1e-6, "")
GOOD = Evidence("engine", "fp32", FP32, (ROW,), (CHECK,))
NAN, HUGE = float("nan"), 10**400


def holding(folder: Path, evidence: str) -> Artifact:
    entries = {**metadata(), contract.META_EVIDENCE: evidence}
    return open_artifact(write_file(folder / "file.onnx", graph(), entries))


def changed(**parts: object) -> str:
    """Return the JSON of a good result with other parts."""
    return json.dumps({**json.loads(GOOD.to_json()), **parts})


def test_the_json_in_a_file_is_compact_and_keeps_three_digits() -> None:
    assert GOOD.to_json() == (
        '{"limits":{"max_abs":0.0001,"kl":1e-06,"top1":1.0,"tie":0.0001,"consistency":0.0001,'
        '"causality":1e-06,"task_points":0.1},'
        '"rows":[{"length":7,"max_abs":1.23e-06,"kl":0.0,"top1":1.0}],'
        '"checks":{"causality":{"value":0,"limit":1e-06}}}'
    )


@pytest.mark.parametrize("precision", LIMITS)
def test_a_file_gives_back_what_was_measured(tmp_path: Path, precision: str) -> None:
    evidence = replace(GOOD, limits=LIMITS[precision], rows=(replace(ROW, max_abs=1.23e-6),))
    found = read_evidence(holding(tmp_path, evidence.to_json()))
    assert (found.limits, found.rows) == (evidence.limits, evidence.rows)
    (check,) = found.checks
    assert (check.name, check.value, check.limit) == ("causality", 0, 1e-6)
    assert check.what
    assert found.failures == []


def test_positions_that_differ_are_counted_again_from_three_digits(tmp_path: Path) -> None:
    rows = [
        ParityRow(length, 0.0, 0.0, (length - misses) / length)
        for length in (1, 2, 7, 48, 255, 999)
        for misses in range(length + 1)
    ]
    found = read_evidence(holding(tmp_path, replace(GOOD, rows=tuple(rows)).to_json()))
    assert [row.misses for row in found.rows] == [row.misses for row in rows]


def test_a_limit_of_a_later_version_is_ignored(tmp_path: Path) -> None:
    text = changed(limits={**asdict(FP32), "perplexity": 3.0})
    assert read_evidence(holding(tmp_path, text)).limits == FP32


@pytest.mark.parametrize(
    ("row", "check", "subject", "value"),
    [
        ({"max_abs": 0.5}, {}, "length 7", 0.5),
        ({"max_abs": NAN}, {}, "length 7", NAN),
        ({"kl": NAN}, {}, "length 7", NAN),
        ({"top1": 6 / 7}, {}, "length 7", "85.71%"),
        ({"top1": NAN}, {}, "length 7", NAN),
        ({}, {"value": 0.4}, "causality", 0.4),
        ({}, {"value": NAN}, "causality", NAN),
        ({}, {"name": "of a later version", "value": 0.4}, "of a later version", 0.4),
    ],
)
def test_a_number_outside_its_limit_is_one_failure_with_its_value(
    tmp_path: Path, row: dict[str, Any], check: dict[str, Any], subject: str, value: object
) -> None:
    fresh = replace(GOOD, rows=(replace(ROW, **row),), checks=(replace(CHECK, **check),))
    for evidence in (fresh, read_evidence(holding(tmp_path, fresh.to_json()))):
        (failure,) = evidence.failures
        assert failure.split(":")[0] == subject
        assert str(value) in failure


@pytest.mark.parametrize(
    ("length", "agreed", "kl", "failures"),
    [(7, 6, 0.009, 0), (7, 6, 0.02, 1), (7, 5, 0.009, 1), (1, 0, 0.0, 0), (100, 94, 0.0, 1)],
)
def test_quantised_weights_are_judged_by_divergence_and_by_positions_rounded_up(
    length: int, agreed: int, kl: float, failures: int
) -> None:
    row = ParityRow(length, max_abs=9.0, kl=kl, top1=agreed / length)
    assert len(row.failures(INT8)) == failures
    assert INT8.by_kl
    assert not FP32.by_kl


def test_a_row_of_nan_fails_by_each_number() -> None:
    assert len(ParityRow(1, NAN, NAN, NAN).failures(FP32)) == 3


def test_the_summary_holds_the_worst_numbers() -> None:
    evidence = replace(GOOD, rows=(ROW, ParityRow(9, 5e-5, 0.003, 7 / 9)))
    for number in ("5.0e-05", "87.5%", "7, 9", "causality 0"):
        assert number in evidence.summary()
    assert "3.0e-03" in replace(evidence, limits=INT8).summary()


BAD_PARTS: list[dict[str, object]] = [
    {"limits": None},
    {"limits": {}},
    *({"limits": {**asdict(FP32), "causality": value}} for value in (None, "much", [], HUGE, NAN)),
    {"limits": {**asdict(INT8), "top1": float("-inf")}},
    {"limits": {key: value for key, value in asdict(FP32).items() if key != "max_abs"}},
    {"rows": 7},
    {"rows": [1]},
    {"rows": [{"length": 1}]},
    {"rows": [{**asdict(ROW), "length": 0}]},
    {"rows": [{**asdict(ROW), "max_abs": "x"}]},
    {"checks": None},
    {"checks": {"causality": {"value": HUGE, "limit": 1}}},
]


@pytest.mark.parametrize("evidence", ['{"top1": 1.0}', *(changed(**part) for part in BAD_PARTS)])
def test_a_result_that_is_missing_or_cannot_be_read_is_refused(
    tmp_path: Path, refused: Refused, evidence: str
) -> None:
    artifact = holding(tmp_path, evidence)
    with refused(ArtifactError, artifact.path):
        read_evidence(artifact)


def test_whole_numbers_are_written_as_they_are() -> None:
    assert (three_digits(123456), three_digits(0.123456)) == (123456, 0.123)
