"""`edgegpt report` as a user types it: what it refuses before measuring, and what it leaves behind."""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import CommandError, Refused
from helpers.page_text import Page
from helpers.sample_figures import MACHINE
from helpers.sample_report import made_bench, made_check, made_report
from helpers.tiny_files import graph, metadata, write_file

from edgegpt import contract
from edgegpt.budget import Check, check_file
from edgegpt.cli.main import main
from edgegpt.errors import ArtifactError
from edgegpt.report.commands import CHECK_OPTION, Options, commands
from edgegpt.report.report import make_report
from edgegpt_export import export_checkpoint

Capture = pytest.CaptureFixture[str]
REPORT = "edgegpt.report.report"


@pytest.fixture
def nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("repeat_checks", "run_bench", "check_file"):
        monkeypatch.setattr(f"{REPORT}.{name}", lambda *_, **__: pytest.fail("measured too early"))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """The command without the measuring; one limit is broken where there is a budget."""

    def make(_: object, out: Path, *, budget: Path | None, **__: object) -> object:
        report = made_report(file, checked=None if budget is None else made_check(file))
        return replace(report, options=replace(report.options, out=out))

    # The face, where the command finds it: a name that a face has loaded once stays there.
    monkeypatch.setattr("edgegpt.report.make_report", make)


# What is refused before measuring


@pytest.mark.parametrize(
    ("options", "values"),
    [
        (["--out", "x.pdf"], "--out .html 'x.pdf'"),
        (["--out", "missing/x.html"], "--out missing/x.html"),
        (["--out", "folder.html"], "--out folder.html"),
        (["--out", f"{'x' * 249}.html"], "--out xxx.html"),  # too long for the temporary file
        (["--threads=0"], "threads 0"),
        (["--threads=9999"], "threads 9999"),
        (["--budget", "none.yaml"], "none.yaml"),
        (["--budget", "broken.yaml"], "broken.yaml"),
        (["--budget", "order.yaml"], "order.yaml p50 p99"),
        (["--budget", "prompt.yaml"], "prompt_tokens 47 48"),
        (["--budget", "long.yaml"], "long.jsonl line 1"),
        (["--profile", "broken.yaml"], "broken.yaml"),
        (["--target", "broken.yaml"], "broken.yaml"),
    ],
)
@pytest.mark.usefixtures("nothing_is_measured")
def test_bad_options_are_refused_before_measuring(
    options: list[str],
    values: str,
    int8_file: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    command_error: CommandError,
) -> None:
    (folder / "broken.yaml").write_text("name: [")
    (folder / "order.yaml").write_text("name: x\ntoken_ms: {p50: 4, p99: 2}")
    (folder / "prompt.yaml").write_text("name: x\nttft_ms: {prompt_tokens: 48, p50: 4}")
    (folder / "long.yaml").write_text("name: x\naccuracy: {path: long.jsonl, minimum: 0.5}")
    (folder / "long.jsonl").write_text(json.dumps({"prompt": "go", "completion": "x y " * 100}) + "\n")
    (folder / "folder.html").mkdir()
    before = set(folder.iterdir())
    monkeypatch.chdir(folder)
    message = command_error("report", int8_file, "--out", "page.html", *options)
    assert [value for value in values.split() if value not in message] == []
    assert set(folder.iterdir()) == before


@pytest.mark.parametrize(
    "evidence", ["{}", '{"rows": 7, "limits": {}, "checks": {}}', '{"rows": [{"length": 1}]}', "["]
)
@pytest.mark.usefixtures("nothing_is_measured")
def test_a_file_without_a_readable_verification_is_refused(
    evidence: str, tmp_path: Path, command_error: CommandError
) -> None:
    entries = {**metadata(), contract.META_EVIDENCE: evidence}
    path = write_file(tmp_path / "evidence.onnx", graph(), entries)
    assert str(path) in command_error("report", path, "--out", tmp_path / "x.html")
    path.write_bytes(path.read_bytes()[:-1000])
    assert str(path) in command_error("report", path, "--out", tmp_path / "x.html")


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_a_missing_extra_is_named(file: Path, tmp_path: Path, package: str) -> None:
    script = f"import sys; sys.modules[{package!r}] = None; from edgegpt.cli.main import main; "
    command = [sys.executable, "-c", f"{script}sys.exit(main())", "report", str(file)]
    command += ["--out", str(tmp_path / "x.html")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert package in run.stderr
    assert "[report]" in run.stderr


# What is measured


def test_a_report_is_of_what_was_read_at_its_start(
    tmp_path: Path, file: Path, int8_file: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    """Of the budget, of the file and of the load average, which bench and check get."""
    path, budget = Path(shutil.copy(file, tmp_path / "a.onnx")), tmp_path / "b.yaml"
    budget.write_bytes(b"name: b\r\nartifact_mb: 8\r\n")
    before, seen = hashlib.sha256(budget.read_bytes()).hexdigest(), list[object]()

    def bench(*_: object, before: object, **__: object) -> object:
        seen.append(before)
        budget.write_text("name: b\nartifact_mb: 9\n")
        return made_bench(file)

    def check(*arguments: Any, **options: Any) -> Check:
        seen.extend([options["before"], options["option"]])
        return check_file(*arguments, **options)

    monkeypatch.setattr(f"{REPORT}.this_machine", lambda: MACHINE)
    monkeypatch.setattr(f"{REPORT}.run_bench", bench)
    monkeypatch.setattr(f"{REPORT}.check_file", check)
    report = make_report(path, tmp_path / "x.html", budget=budget)
    assert (report.budget_sha256, seen) == (before, [MACHINE, MACHINE, CHECK_OPTION])
    assert report.checked is not None
    assert report.checked.budget.artifact_mb == 8
    monkeypatch.setattr(f"{REPORT}.run_bench", lambda *_, **__: shutil.copy(int8_file, path))
    with refused(ArtifactError, path):
        make_report(path, tmp_path / "x.html")


# What is left behind


@pytest.mark.usefixtures("made")
def test_a_broken_limit_gives_a_page_and_exit_code_1(tmp_path: Path, file: Path, capsys: Capture) -> None:
    out = tmp_path / "x.html"
    out.write_text("an older page")
    assert main(["report", str(file), "--out", str(out), "--budget", "robot.yaml", "--json"]) == 1
    output = capsys.readouterr()
    assert "artifact_mb" in output.err
    assert json.loads(output.out)["passed"] is False
    assert "failed" in Page(out.read_text(encoding="utf-8")).classes()
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.usefixtures("made")
def test_a_page_that_cannot_be_finished_leaves_the_older_one(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, command_error: CommandError
) -> None:
    out = tmp_path / "x.html"
    out.write_text("an older page")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert str(out) in command_error("report", file, "--out", out)
    assert out.read_text() == "an older page"
    assert list(tmp_path.iterdir()) == [out]


# The commands on the page


def test_the_commands_are_exact_quoted_and_without_folders(file: Path) -> None:
    facts = made_report(file).facts
    options = Options(Path("a/out.html"), Path("a/b.yaml"), Path("a/t.yaml"), 1, 0.0)
    first, *lines, page = [command.line for command in commands(facts, options, MACHINE)]
    assert first == "pip install onnxruntime==1 numpy==2"
    name = shlex.quote(file.name)
    assert page == (
        f"edgegpt report {name} --out out.html --threads 1 --seconds 0 --budget b.yaml --profile t.yaml"
    )
    # `check` takes no 0 seconds.
    assert f"edgegpt check {name} --budget b.yaml --threads 1 --seconds 0.01" in lines


@pytest.mark.slow
def test_the_commands_run_as_they_are_printed(
    tmp_path: Path, tiny_checkpoint: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    export_checkpoint(tiny_checkpoint, tmp_path / "x y.onnx")
    (tmp_path / "b.yaml").write_text("name: b\nload_ms: 1e6\n")
    assert main(["report", "x y.onnx", "--out=r.html", "--budget=b.yaml", "--seconds", "0", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["passed"] is True
    assert document["file"]["sha256"] in Path("r.html").read_text(encoding="utf-8")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    Path("r.html").unlink()
    for command in document["commands"][1:]:
        line = command["line"].replace(" CHECKPOINT", f" {shlex.quote(str(tiny_checkpoint))}")
        run = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        assert run.returncode == 0, (line, run.stderr)
    assert Path("r.html").is_file()
