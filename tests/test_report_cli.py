"""`edgegpt report` as a user types it, and what it prints for machines."""

import hashlib
import json
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.page_text import words
from helpers.sample_figures import MACHINE
from helpers.sample_report import BUDGET, made_bench, made_check, made_report
from helpers.tiny_files import graph, metadata, tiny_file, write_file

from edgegpt import contract
from edgegpt.budget.verdict import Estimate
from edgegpt.cli.main import main
from edgegpt.measure.bench import Bench
from edgegpt.report import report as gather_module
from edgegpt.report.commands import CHECK_OPTION
from edgegpt.report.report import report_json
from edgegpt.runtime.onnx_file import file_sha256

Capture = pytest.CaptureFixture[str]


# For machines


def test_json_holds_what_the_page_says(file: Path) -> None:
    held = made_check(file, BUDGET, {"artifact_mb": Estimate.exact(0.25)})
    document = json.loads(json.dumps(report_json(made_report(file, checked=held)), allow_nan=False))
    assert document["passed"] is False
    assert document["broken"] == ["artifact_mb is 0.25, the limit is 0.1"]
    assert document["file"]["sha256"] == file_sha256(file)
    assert document["file"]["config"]["n_layer"] == 2
    assert document["evidence"]["lengths"][0]["tokens"] == 1
    assert document["bench"]["token_ms"][0]["p50"] == 2.0
    assert document["budget"]["broken"] is True
    token = document["roofline"]["tokens"][0]
    assert token["flops_per_second"] == token["flops"] / 0.002


def test_a_number_that_json_has_not_is_null(
    tmp_path: Path, file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = made_report(file)
    bad = replace(report, repeated=(replace(report.repeated[0], value=float("nan")),))
    monkeypatch.setattr(gather_module, "gather", lambda *_, **__: bad)
    monkeypatch.setattr("edgegpt.report.html.save_page", lambda _, out: out.write_text(""))
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(file), "--out", "out.html", "--json"]) == 1

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    document = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert document["repeated"][0]["value"] is None
    assert document["repeated"][0]["passed"] is False


# As a user types it


def refused(capsys: Capture, *arguments: str) -> str:
    assert main(["report", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("edgegpt: ")
    assert output.err.count("\n") == 1
    return output.err


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        ("x.pdf", "--out must name a .html or .htm file, got"),
        ("x", "--out must name a .html or .htm file, got"),
        ("missing/x.html", "missing does not exist"),
        ("folder.html", "is a folder"),
    ],
)
def test_a_page_that_cannot_be_written_is_refused_before_measuring(
    tmp_path: Path, capsys: Capture, out: str, sentence: str
) -> None:
    (tmp_path / "folder.html").mkdir()
    assert sentence in refused(capsys, str(tmp_path / "none.onnx"), "--out", str(tmp_path / out))


def test_a_missing_and_a_damaged_file_are_refused_and_leave_no_page(
    tmp_path: Path, file: Path, capsys: Capture
) -> None:
    out = tmp_path / "x.html"
    assert "does not exist" in refused(capsys, str(tmp_path / "none.onnx"), "--out", str(out))
    (tmp_path / "damaged.onnx").write_bytes(file.read_bytes()[:-1000])
    assert "damaged.onnx" in refused(capsys, str(tmp_path / "damaged.onnx"), "--out", str(out))
    assert not out.exists()


@pytest.mark.parametrize(
    ("evidence", "sentence"),
    [
        ("{}", "holds no verification result"),
        ('{"rows": [{"length": 1}], "limits": {}, "checks": {}}', "the verification result in .* is damaged"),
        ('{"rows": 7, "limits": {}, "checks": {}}', "the verification result in .* is damaged"),
        (
            '{"rows": [{"length": 1, "max_abs": "x", "kl": 0, "top1": 1}], "checks": {},'
            ' "limits": {"max_abs": null, "kl": 1, "top1": 1}}',
            "the verification result in .* is damaged",
        ),
        (
            '{"rows": [{"length": 1, "max_abs": 0, "kl": 0, "top1": 1}], "checks": {},'
            ' "limits": {"max_abs": 1, "kl": 1, "top1": 1}}',
            "the verification result in .* is damaged",
        ),
        (
            '{"rows": [{"length": 1, "max_abs": 0, "kl": 0, "top1": 1}], "checks": {},'
            ' "limits": {"max_abs": 1, "kl": 1, "top1": -Infinity, "causality": 1, "consistency": 1}}',
            "the verification result in .* is damaged",
        ),
        (
            '{"rows": [{"length": 1, "max_abs": 0, "kl": 0, "top1": 1}], "checks":'
            f' {{"causality": {{"value": 1{"0" * 400}, "limit": 1}}}},'
            ' "limits": {"max_abs": 1, "kl": 1, "top1": 1, "causality": 1, "consistency": 1}}',
            "the verification result in .* is damaged",
        ),
        ("[", "is not JSON"),
    ],
)
def test_evidence_that_cannot_be_read_is_refused(
    tmp_path: Path, capsys: Capture, evidence: str, sentence: str
) -> None:
    entries = {**metadata(), contract.META_EVIDENCE: evidence}
    path = write_file(tmp_path / "evidence.onnx", graph(), entries)
    assert re.search(sentence, refused(capsys, str(path), "--out", str(tmp_path / "x.html")))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name: x\ntoken_ms: {p50: 4, p99: 2}\n", "p50 must not be above p99"),
        ("name: x\nartifact_mb: -1\n", "artifact_mb"),
        ("name: [", "budget.yaml"),
        ("name: x\nartefact_mb: 1\n", "artefact_mb"),
    ],
)
def test_a_broken_budget_is_refused_before_measuring(
    tmp_path: Path, file: Path, capsys: Capture, text: str, sentence: str
) -> None:
    budget = tmp_path / "budget.yaml"
    budget.write_text(text)
    out = tmp_path / "x.html"
    assert sentence in refused(capsys, str(file), "--out", str(out), "--budget", str(budget))
    assert not out.exists()
    missing = str(tmp_path / "none.yaml")
    assert "none.yaml" in refused(capsys, str(file), "--out", str(out), "--budget", missing)


@pytest.fixture
def nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(*_: object, **__: object) -> None:
        raise AssertionError("it measures before it knows its input")

    for name in ("repeat", "bench", "check"):
        monkeypatch.setattr(gather_module, name, measure)


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ("ttft_ms: {prompt_tokens: 48, p50: 4}", "prompt_tokens must be from 1 to 47 for"),
        ("accuracy: {path: none.jsonl, minimum: 0.5}", "none.jsonl cannot be read: No such file"),
        ("accuracy: {path: bad.jsonl, minimum: 0.5}", "bad.jsonl, line 1: expected"),
        ("accuracy: {path: long.jsonl, minimum: 0.5}", "long.jsonl, line 1: the prompt has"),
    ],
)
@pytest.mark.usefixtures("nothing_is_measured")
def test_a_budget_that_the_file_cannot_be_held_to_is_refused_before_measuring(
    tmp_path: Path, int8_file: Path, capsys: Capture, limits: str, sentence: str
) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\n")
    (tmp_path / "long.jsonl").write_text(json.dumps({"prompt": "go", "completion": "x y " * 100}) + "\n")
    (tmp_path / "b.yaml").write_text(f"name: b\n{limits}\n")
    out = str(tmp_path / "x.html")
    assert sentence in refused(capsys, str(int8_file), "--out", out, "--budget", str(tmp_path / "b.yaml"))


@pytest.mark.parametrize("option", ["--out", "--budget", "--target"])
@pytest.mark.usefixtures("nothing_is_measured")
def test_a_name_that_is_no_utf8_is_refused_before_measuring(
    tmp_path: Path, int8_file: Path, capsys: Capture, option: str
) -> None:
    odd = os.fsdecode(b"caf\xe9.html")
    options = {"--out": str(tmp_path / "x.html"), option: odd}
    sentence = refused(capsys, str(int8_file), *(word for pair in options.items() for word in pair))
    assert sentence == f"edgegpt: {option} must be a name in UTF-8, got 'caf\\udce9.html'; rename it\n"


@pytest.mark.usefixtures("nothing_is_measured")
def test_a_name_too_long_for_the_disk_is_refused_before_measuring(
    tmp_path: Path, int8_file: Path, capsys: Capture
) -> None:
    out = tmp_path / f"{'x' * 249}.html"  # the file itself could be made, but not the one beside it
    assert "File name too long" in refused(capsys, str(int8_file), "--out", str(out))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["name: [", "name: x", "threads: two"])
@pytest.mark.usefixtures("nothing_is_measured")
def test_a_broken_profile_is_refused_before_measuring(
    tmp_path: Path, int8_file: Path, capsys: Capture, text: str
) -> None:
    (tmp_path / "t.yaml").write_text(text)
    out = str(tmp_path / "x.html")
    assert "t.yaml" in refused(capsys, str(int8_file), "--out", out, "--target", str(tmp_path / "t.yaml"))


def test_the_checksum_of_a_budget_is_of_what_it_was_read_from(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget, content = tmp_path / "b.yaml", b"name: b\r\nartifact_mb: 8\r\n"
    budget.write_bytes(content)

    def edited_meanwhile(*_: object, **__: object) -> Bench:
        budget.write_text("name: b\nartifact_mb: 9\n")
        return made_bench(file)

    monkeypatch.setattr(gather_module, "bench", edited_meanwhile)
    report = gather_module.gather(file, tmp_path / "x.html", budget=budget)
    assert report.budget_sha256 == hashlib.sha256(content).hexdigest()
    assert report.checked is not None
    assert report.checked.budget.artifact_mb == 8


def test_a_file_that_is_exported_again_meanwhile_gives_no_page(
    tmp_path: Path, file: Path, int8_file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = tmp_path / "a.onnx", tmp_path / "x.html"
    shutil.copy(file, path)

    def exported_again(*_: object, **__: object) -> Bench:
        shutil.copy(int8_file, path)
        return made_bench(path)

    monkeypatch.setattr(gather_module, "bench", exported_again)
    assert "a.onnx was changed while it was measured" in refused(capsys, str(path), "--out", str(out))
    assert not out.exists()


@pytest.mark.parametrize("threads", ["0", "-1", "9999"])
def test_threads_that_cannot_be_are_refused(tmp_path: Path, capsys: Capture, threads: str) -> None:
    sentence = refused(
        capsys, str(tiny_file(tmp_path)), "--out", str(tmp_path / "x.html"), f"--threads={threads}"
    )
    assert f"got {threads}" in sentence


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_without_the_extra_it_is_named_before_measuring(
    tmp_path: Path, file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    for name in [
        name for name in sys.modules if name.startswith(("edgegpt.report.", "edgegpt.measure.plot"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.partition(".")[0] == package] or [package]:
        monkeypatch.setitem(sys.modules, name, None)
    message = refused(capsys, str(file), "--out", str(tmp_path / "x.html"))
    assert f"the package '{package}" in message
    assert "install the extra [report]" in message


def made(monkeypatch: pytest.MonkeyPatch, file: Path, held: bool) -> None:
    """The command, but for the measuring."""
    checked = made_check(file, BUDGET, {"artifact_mb": Estimate.exact(0.25)}) if held else None

    def gather(_: object, out: Path, **__: object) -> object:
        report = made_report(file, checked=checked)
        return replace(report, options=replace(report.options, out=out))

    monkeypatch.setattr(gather_module, "gather", gather)


def test_a_broken_limit_gives_a_page_and_exit_code_1(
    tmp_path: Path, file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(monkeypatch, file, held=True)
    out = tmp_path / "x.html"
    out.write_text("an older page")
    assert main(["report", str(file), "--out", str(out)]) == 1
    assert "artifact_mb is 0.25, the limit is 0.1" in capsys.readouterr().err
    assert "✗ BROKEN" in words(out.read_text(encoding="utf-8"))
    assert [path.name for path in tmp_path.iterdir()] == ["x.html"]


def test_a_page_that_cannot_be_finished_leaves_the_older_one(
    tmp_path: Path, file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(monkeypatch, file, held=False)
    out = tmp_path / "x.html"
    out.write_text("an older page")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert "--out cannot write" in refused(capsys, str(file), "--out", str(out))
    assert out.read_text() == "an older page"
    assert [path.name for path in tmp_path.iterdir()] == ["x.html"]


def test_a_reports_own_work_is_no_load(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bench and check judge the load average of the moment before the report began."""
    path = tmp_path / "budget.yaml"
    path.write_text("name: x\nload_ms: 1\n")
    befores: list[Any] = []
    options: list[Any] = []

    def remembered(result: Any) -> Any:
        return lambda *_, before, **more: (
            befores.append(before) or options.append(more.get("option")) or result
        )

    monkeypatch.setattr(gather_module, "machine", lambda: MACHINE)
    monkeypatch.setattr(gather_module, "bench", remembered(made_bench(file)))
    monkeypatch.setattr(gather_module, "check_file", remembered(None))
    gather_module.gather(file, tmp_path / "x.html", budget=path)
    assert befores == [MACHINE, MACHINE]
    assert options == [None, CHECK_OPTION]
