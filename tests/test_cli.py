"""Every command as a user types it, with wrong arguments too."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import CommandError, Typed

from edgegpt.cli.main import main
from edgegpt.model.checkpoint import load_checkpoint, save_checkpoint

NANO = str(Path(__file__).parents[1] / "configs" / "models" / "nano.yaml")
EDGEGPT = [sys.executable, "-m", "edgegpt"]
Capture = pytest.CaptureFixture[str]
RunJson = Callable[[str], Any]


@pytest.fixture
def run_json(typed: Typed, capsys: Capture) -> RunJson:
    """`run_json("info FILE")` runs the command with --json and returns what it prints."""

    def run(command: str) -> Any:
        capsys.readouterr()
        assert main([*typed(command), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run


# What the commands print


def test_the_version_and_every_command_are_listed(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("edgegpt 0.")
    assert main(["--help"]) == 0
    output = capsys.readouterr().out
    commands = "params train export verify info generate eval bench tune check profile plan report"
    assert [command for command in commands.split() if command not in output] == []


@pytest.mark.parametrize(
    ("command", "printed", "key", "value"),
    [
        (f"params {NANO}", "955,648", "total.parameters", 955_648),
        ("export CHECKPOINT --out OUT/x.onnx", "100%", "evidence.checks.causality.limit", 1e-6),
        ("verify FILE --checkpoint CHECKPOINT", "causality", "checks.causality.limit", 1e-6),
        ("info FILE", "n_embd 32", "config.n_layer", 2),
        ("info FILE", "engine", "target", "engine"),
        ("eval FILE DATA", "3", "examples", 3),
    ],
)
def test_a_command_prints_its_result_for_people_and_as_json(
    command: str, printed: str, key: str, value: object, typed: Typed, run_json: RunJson, capsys: Capture
) -> None:
    document = run_json(command)
    for part in key.split("."):
        document = document[part]
    assert document == value
    assert main(typed(command)) == 0
    assert printed in capsys.readouterr().out


def test_eval_measures_the_loss(run_json: RunJson) -> None:
    assert run_json("eval FILE DATA")["loss"] > 0


def test_generate_prints_only_the_text_to_a_pipe(typed: Typed, capsys: Capture, run_json: RunJson) -> None:
    command = "generate FILE turn --max-new-tokens 8 --temperature 0"
    reply = run_json(command)
    assert reply["usage"]["completion_tokens"] <= 8
    for streamed in ("", " --stream"):
        assert main(typed(command + streamed)) == 0
        output = capsys.readouterr()
        assert output.out == reply["text"] + "\n"
        assert output.err.count("\n") == (reply["finish_reason"] == "length")


def test_generate_reads_a_prompt_from_standard_input(file: Path) -> None:
    def answer(prompt: str, piped: bytes) -> bytes:
        command = [*EDGEGPT, "generate", str(file), prompt, "--seed", "1"]
        return subprocess.run(command, input=piped, capture_output=True, check=True).stdout

    assert answer("-", b"turn left\n") == answer("turn left", b"")
    assert answer("-", b"\xff\xfe turn left") == answer("\udcff\udcfe turn left", b"")


def test_text_that_the_output_cannot_encode_is_an_error_in_one_line(file: Path) -> None:
    command = [*EDGEGPT, "generate", str(file), "turn", "--seed", "3", "--temperature", "5"]
    result = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert result.returncode == 2
    assert b"ascii" in result.stderr
    assert result.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("info FILE --json", 0),
        ("info FILE", 0),
        ("generate FILE hello --stream", 0),
        ("check FILE --budget tight.yaml", 1),
        ("check FILE --budget tight.yaml --json", 1),
    ],
)
def test_the_exit_code_stays_when_the_reader_has_gone(
    command: str, code: int, typed: Typed, tmp_path: Path
) -> None:
    (tmp_path / "tight.yaml").write_text("name: tight\nparameters: 10\n")
    read, write = os.pipe()
    os.close(read)
    run = subprocess.run(
        [*EDGEGPT, *typed(command)], stdout=write, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    os.close(write)
    assert (run.returncode, run.stderr.count("\n")) == (code, code)


# Bad input: one sentence, exit code 2, no traceback, nothing half-written


@pytest.mark.parametrize("command", ["info", "generate", "eval", "verify"])
@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "truncated", "foreign"])
def test_a_file_that_is_no_artifact_is_named(
    command: str, kind: str, file: Path, typed: Typed, tmp_path: Path, command_error: CommandError
) -> None:
    broken, whole = tmp_path / "broken.onnx", file.read_bytes()
    if kind == "folder":
        broken.mkdir()
    elif kind != "missing":
        broken.write_bytes({"empty": b"", "truncated": whole[: len(whole) // 2], "foreign": b"MZ" * 99}[kind])
    more = {"info": "", "generate": "go", "eval": "DATA", "verify": "--checkpoint CHECKPOINT"}
    assert str(broken) in command_error(command, broken, *typed(more[command]))


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (["go", "--temperature", "-1"], "temperature -1.0"),
        (["go", "--top-p", "1.5"], "top_p 1.5"),
        (["go", "--top-k", "x"], "--top-k 'x'"),
        (["go", "--max-new-tokens", "0"], "max_new_tokens 0"),
        (["go", "--deadline-ms", "0"], "deadline_ms 0"),
        (["go", "--stop", ""], "stop"),
        (["go", "--threads", "0"], "threads 0"),
        (["go", "--capacity", "100000"], "capacity 48 100000"),
        (["go", "--colour", "red"], "--colour"),
        ([""], "empty"),
        (["turn left " * 40], "134 400 48"),
        (["x" * 1_000_000], "1000000"),
    ],
)
def test_generate_names_the_option_and_the_value_that_are_wrong(
    arguments: list[str], values: str, file: Path, command_error: CommandError
) -> None:
    message = command_error("generate", file, *arguments)
    assert [value for value in values.split() if value not in message] == []


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ("CHECKPOINT --out OUT/x.onnx --precision int2", "int2"),
        ("CHECKPOINT --out OUT/x.onnx --target gpu", "gpu"),
        ("OUT/nowhere --out OUT/x.onnx", "nowhere"),
        ("CHECKPOINT --out OUT/no/x.onnx", "no/"),
        ("CHECKPOINT --out OUT", "out"),
        ("CHECKPOINT", "--out"),
    ],
)
def test_export_refuses_what_it_cannot_do_and_writes_nothing(
    arguments: str, value: str, typed: Typed, folder: Path, command_error: CommandError
) -> None:
    assert value in command_error(*typed(f"export {arguments}"))
    assert list(folder.iterdir()) == []


def test_a_damaged_checkpoint_is_refused(checkpoint: Path, folder: Path, command_error: CommandError) -> None:
    weights = checkpoint / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert str(weights) in command_error("export", checkpoint, "--out", folder / "x.onnx")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "command", ["bench FILE --plot", "export FOLDER --out", "plan --budget FILE --out", "profile --out"]
)
def test_a_file_to_write_without_a_name_is_refused(command: str, command_error: CommandError) -> None:
    words = command.split()
    assert f"'{words[-1]}'" in command_error(*words, "")


def test_a_file_of_another_checkpoint_does_not_verify(file: Path, checkpoint: Path, capsys: Capture) -> None:
    other = load_checkpoint(checkpoint)
    other.model.wte.weight.data[0, 0] += 1
    save_checkpoint(checkpoint, other.model, other.tokenizer)
    assert main(["verify", str(file), "--checkpoint", str(checkpoint)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "values"),
    [
        ("params [b]odd.yaml", "[b]odd.yaml 'n_layers' 'n_layer'"),
        ("params [b]heads.yaml", "[b]heads.yaml n_embd n_head 130 4"),
        ("train [b]heads.yaml", "[b]heads.yaml"),
        ("params folder.yaml", "folder.yaml"),
        ("params missing.yaml", "missing.yaml"),
        (f"params {NANO} --capacity 9999", "9999"),
    ],
)
def test_a_mistake_in_a_config_is_named_with_its_file(
    command: str, values: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_error: CommandError
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.yaml").mkdir()
    for name, config in {"odd": "n_embd: 128, n_layers: 2", "heads": "n_embd: 130, n_layer: 2"}.items():
        Path(f"[b]{name}.yaml").write_text(f"{{vocab_size: 512, block_size: 64, n_head: 4, {config}}}")
    message = command_error(*command.split())
    assert [value for value in values.split() if value not in message] == []


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, command_error: CommandError) -> None:
    monkeypatch.setitem(sys.modules, "edgegpt_export", None)
    assert "'.[export]'" in command_error("export", "checkpoint", "--out", "x.onnx")


def test_an_unknown_command_is_named_and_none_prints_the_help(
    capsys: Capture, command_error: CommandError
) -> None:
    assert "generat" in command_error("generat")
    assert "FILE.onnx" in command_error("generate")
    assert main([]) == 2
    assert "Usage: edgegpt" in capsys.readouterr().out
