"""The commands on the page of `edgegpt report` do what they say."""

import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.page_text import Seen
from helpers.sample_report import MACHINE, made_report
from helpers.sample_target import TARGET

from edgegpt.cli.main import main
from edgegpt.report.commands import Options, commands
from edgegpt.report.html import page
from edgegpt_export import export_checkpoint

Capture = pytest.CaptureFixture[str]


def test_the_commands_are_exact_and_quoted_for_a_shell(file: Path) -> None:
    lines = [command.line for command in made_report(file).commands]
    assert lines[0] == "pip install onnxruntime==1 numpy==2"
    assert lines[-1].startswith("edgegpt report '<img src=x onerror=alert(1)>")
    assert lines[-1].endswith("--out out.html --threads 1 --seconds 10")
    assert str(file.parent) not in "".join(lines)


def test_a_name_that_looks_like_an_option_is_none_in_the_commands(file: Path) -> None:
    report = made_report(file)
    facts = replace(report.facts, path=Path("-x.onnx"))
    options = Options(Path("-out.html"), Path("-b.yaml"), Path("-t.yaml"), 1, 10.0)
    lines = [command.line for command in commands(facts, options, MACHINE)]
    assert "edgegpt info ./-x.onnx" in lines
    assert lines[-1].startswith("edgegpt report ./-x.onnx --out ./-out.html ")
    assert lines[-1].endswith(" --budget ./-b.yaml --target ./-t.yaml")


def test_no_command_asks_for_what_another_refuses(file: Path) -> None:
    options = Options(Path("out.html"), Path("b.yaml"), None, 1, 0.0)
    lines = [command.line for command in commands(made_report(file).facts, options, MACHINE)]
    assert any(line.endswith("--budget b.yaml --threads 1 --seconds 0.01") for line in lines)


@pytest.mark.slow
def test_the_commands_run_as_they_are_printed(
    tmp_path: Path, tiny_checkpoint: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    export_checkpoint(tiny_checkpoint, tmp_path / "-x y\\z.onnx")
    (tmp_path / "-b.yaml").write_text("name: b\nload_ms: 1e6\n")
    given = ["--out=-r.html", "--budget=-b.yaml", "--seconds", "0", "--json"]
    assert main(["report", "./-x y\\z.onnx", *given]) == 0
    lines = [command["line"] for command in json.loads(capsys.readouterr().out)["commands"]]
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "-r.html").unlink()
    installed, *others = lines
    assert installed.startswith("pip install onnxruntime==")
    for line in others:
        exact = line.replace(" CHECKPOINT", f" {shlex.quote(str(tiny_checkpoint))}")
        run = subprocess.run(["bash", "-c", exact], capture_output=True, text=True, check=False)
        assert run.returncode == 0, (line, run.stderr)
    assert (tmp_path / "-r.html").is_file()


def test_the_page_shows_each_command_letter_by_letter(file: Path) -> None:
    report = made_report(file, target=TARGET)
    shown = Seen(page(report)).text
    for command in report.commands:
        assert command.line in shown
