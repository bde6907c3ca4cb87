"""Every command as a user types it, with wrong arguments too."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgegpt.cli.main import main

ROOT = Path(__file__).parents[1]
NANO = str(ROOT / "configs" / "models" / "nano.yaml")
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="session")
def tiny_file(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> str:
    out = tmp_path_factory.mktemp("cli") / "tiny.onnx"
    assert main(["export", str(tiny_checkpoint), "--out", str(out)]) == 0
    return str(out)


def refused(capsys: Capture, *arguments: str) -> str:
    """The one sentence with which a command is refused."""
    capsys.readouterr()
    assert main(list(arguments)) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("edgegpt: ")
    assert output.err.count("\n") == 1
    return output.err


# What the commands print


def test_params_prints_the_exact_count(capsys: Capture) -> None:
    assert main(["params", NANO]) == 0
    assert "955,648" in capsys.readouterr().out


def test_params_refuses_more_than_the_context(capsys: Capture) -> None:
    message = refused(capsys, "params", NANO, "--capacity", "9999")
    assert "kv_capacity must be within block_size 256, got 9999" in message


def test_the_version_is_told(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("edgegpt 0.")


def test_params_for_machines(capsys: Capture) -> None:
    assert main(["params", NANO, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total"]["parameters"] == 955_648


def test_export_says_what_it_proved(tiny_checkpoint: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["export", str(tiny_checkpoint), "--out", str(tmp_path / "a.onnx")]) == 0
    output = capsys.readouterr().out
    for word in ("Verified", "max abs difference", "top-1 agreement 100%", "causality 0"):
        assert word in " ".join(output.split())
    assert main(["export", str(tiny_checkpoint), "--out", str(tmp_path / "b.onnx"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["evidence"]["rows"]


def test_verify_repeats_the_proof(tiny_file: str, tiny_checkpoint: Path, capsys: Capture) -> None:
    assert main(["verify", tiny_file, "--checkpoint", str(tiny_checkpoint)]) == 0
    assert "top-1 agreement" in capsys.readouterr().out
    assert main(["verify", tiny_file, "--checkpoint", str(tiny_checkpoint), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checks"]


def test_info_says_what_a_file_is(tiny_file: str, capsys: Capture) -> None:
    assert main(["info", tiny_file]) == 0
    assert "2 layers, 2 heads, n_embd 32" in capsys.readouterr().out
    assert main(["info", tiny_file, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["target"] == "engine"
    assert facts["config"]["n_layer"] == 2


def test_generate_prints_only_the_text_to_a_pipe(tiny_file: str, capsys: Capture) -> None:
    arguments = ["generate", tiny_file, "turn left", "--max-new-tokens", "8", "--temperature", "0"]
    assert main(arguments) == 0
    text = capsys.readouterr()
    assert text.err in ("", "edgegpt: the answer was cut short by max_new_tokens\n")
    assert main([*arguments, "--json"]) == 0
    reply = json.loads(capsys.readouterr().out)
    assert text.out == reply["text"] + "\n"
    assert reply["usage"]["completion_tokens"] <= 8
    assert main([*arguments, "--stream"]) == 0
    assert capsys.readouterr().out == text.out


def test_generate_reads_a_prompt_from_standard_input(tiny_file: str) -> None:
    def answer(prompt: str, piped: bytes) -> bytes:
        command = [sys.executable, "-m", "edgegpt", "generate", tiny_file, prompt, "--seed", "1"]
        return subprocess.run(command, input=piped, capture_output=True, check=True).stdout

    assert answer("-", b"turn left\n") == answer("-", b"turn left") == answer("turn left", b"")
    assert answer("-", b"\xff\xfe turn left") == answer("\udcff\udcfe turn left", b"")


def test_output_that_the_terminal_cannot_show_is_said(tiny_file: str) -> None:
    command = [
        sys.executable,
        "-m",
        "edgegpt",
        "generate",
        tiny_file,
        "turn",
        "--seed",
        "3",
        "--temperature",
        "5",
    ]
    result = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert result.returncode == 2
    assert b"set PYTHONUTF8=1" in result.stderr
    assert result.stderr.count(b"\n") == 1


def test_eval_counts_exact_matches_and_loss(tiny_file: str, tmp_path: Path, capsys: Capture) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"prompt": "turn left", "completion": "ok"}\n' * 3)
    assert main(["eval", tiny_file, str(data)]) == 0
    assert "exact match" in capsys.readouterr().out
    assert main(["eval", tiny_file, str(data), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["examples"] == 3
    assert result["loss"] > 0


@pytest.mark.parametrize("arguments", ["info FILE --json", "info FILE", "generate FILE hello --stream"])
def test_a_reader_that_leaves_early_is_no_error(arguments: str, tiny_file: str) -> None:
    read, write = os.pipe()
    os.close(read)
    words = arguments.replace("FILE", tiny_file).split()
    result = subprocess.run([sys.executable, "-m", "edgegpt", *words], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (result.returncode, result.stderr) == (0, b"")


def test_help_lists_every_command(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    output = capsys.readouterr().out
    for command in ("params", "train", "export", "verify", "info", "generate", "eval"):
        assert command in output


# Bad input: one sentence, exit code 2, no traceback, nothing half-written


@pytest.mark.parametrize(
    "command",
    [
        ["info", "FILE"],
        ["generate", "FILE", "turn left"],
        ["eval", "FILE", "data.jsonl"],
        ["verify", "FILE", "--checkpoint", "CHECKPOINT"],
    ],
)
@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "truncated", "foreign"])
def test_a_file_that_is_no_artifact_is_refused_in_one_sentence(
    command: list[str], kind: str, tiny_file: str, tiny_checkpoint: Path, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "broken.onnx"
    if kind == "folder":
        file.mkdir()
    elif kind != "missing":
        whole = Path(tiny_file).read_bytes()
        file.write_bytes({"empty": b"", "truncated": whole[: len(whole) // 2], "foreign": b"MZ" * 99}[kind])
    (tmp_path / "data.jsonl").write_text('{"prompt": "a", "completion": "b"}\n')
    names = {
        "FILE": str(file),
        "CHECKPOINT": str(tiny_checkpoint),
        "data.jsonl": str(tmp_path / "data.jsonl"),
    }
    assert str(file) in refused(capsys, *(names.get(word, word) for word in command))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--temperature", "-1"], "temperature must be a number from 0 (greedy) to 1000, got -1.0"),
        (["--top-p", "1.5"], "top_p must be a number between 0 and 1, got 1.5"),
        (["--top-k", "x"], "Invalid value for '--top-k': Input should be a valid integer"),
        (["--top-k", "x"], ", got 'x'"),
        (["--max-new-tokens", "0"], "max_new_tokens"),
        (["--deadline-ms", "0"], "deadline_ms"),
        (["--stop", ""], "stop"),
        (["--threads", "0"], "threads must be a whole number of at least 1, got 0"),
        (["--capacity", "100000"], "capacity must be within 1 to block_size 48, got 100000"),
        (["--colour", "red"], "No such option: --colour"),
    ],
)
def test_generate_refuses_nonsense(
    arguments: list[str], sentence: str, tiny_file: str, capsys: Capture
) -> None:
    assert sentence in refused(capsys, "generate", tiny_file, "turn left", *arguments)


def test_generate_refuses_prompts_that_cannot_be_answered(tiny_file: str, capsys: Capture) -> None:
    assert "is empty" in refused(capsys, "generate", tiny_file, "")
    message = refused(capsys, "generate", tiny_file, "turn left " * 40)
    assert "at least 134 tokens (400 bytes) but the context holds 48" in message
    assert "1000000 bytes" in refused(capsys, "generate", tiny_file, "x" * 1_000_000)


def test_export_refuses_what_it_cannot_do(tiny_checkpoint: Path, tmp_path: Path, capsys: Capture) -> None:
    checkpoint, out = str(tiny_checkpoint), str(tmp_path / "out.onnx")
    assert "int2" in refused(capsys, "export", checkpoint, "--out", out, "--precision", "int2")
    assert "target must be" in refused(capsys, "export", checkpoint, "--out", out, "--target", "gpu")
    assert "does not exist" in refused(capsys, "export", str(tmp_path / "nowhere"), "--out", out)
    assert "does not exist" in refused(capsys, "export", checkpoint, "--out", str(tmp_path / "no" / "x.onnx"))
    assert "is a folder" in refused(capsys, "export", checkpoint, "--out", str(tmp_path))
    assert "Missing option" in refused(capsys, "export", checkpoint)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ("bench FILE", "--plot"),
        ("export CHECKPOINT", "--out"),
        ("plan --budget BUDGET", "--out"),
        ("profile", "--out"),
        ("report FILE", "--out"),
    ],
)
def test_a_file_to_write_without_a_name_is_not_called_a_folder(
    arguments: str, option: str, capsys: Capture
) -> None:
    message = refused(capsys, *arguments.split(), option, "")
    assert message == f"edgegpt: Invalid value for '{option}': expected the name of a file to write, got ''\n"


def test_a_damaged_checkpoint_is_refused(tiny_checkpoint: Path, tmp_path: Path, capsys: Capture) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(tiny_checkpoint, broken)
    weights = (broken / "model.safetensors").read_bytes()
    (broken / "model.safetensors").write_bytes(weights[:1000])
    assert "may be truncated" in refused(capsys, "export", str(broken), "--out", str(tmp_path / "x.onnx"))


def test_a_file_of_another_checkpoint_does_not_verify(
    tiny_file: str, tiny_checkpoint: Path, tmp_path: Path, capsys: Capture
) -> None:
    other = tmp_path / "other"
    shutil.copytree(tiny_checkpoint, other)
    from edgegpt.model.checkpoint import load_checkpoint, save_checkpoint

    checkpoint = load_checkpoint(other)
    checkpoint.model.wte.weight.data[0, 0] += 1
    save_checkpoint(other, checkpoint.model, checkpoint.tokenizer)
    assert main(["verify", tiny_file, "--checkpoint", str(other)]) == 1
    assert "another checkpoint" in capsys.readouterr().err


def test_params_and_train_name_what_is_wrong_in_a_config(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "model.yaml"
    file.write_text("vocab_size: 512\nblock_size: 64\nn_layer: 2\nn_head: 4\nn_embd: 130\n")
    assert "n_embd must be divisible by n_head, got 130 and 4" in refused(capsys, "params", str(file))
    file.write_text("vocab_size: 512\nblock_size: 64\nn_layers: 2\nn_head: 4\nn_embd: 128\n")
    assert "unknown key 'n_layers', did you mean 'n_layer'?" in refused(capsys, "params", str(file))
    assert str(file) in refused(capsys, "train", str(file))
    assert "is a folder" in refused(capsys, "params", str(tmp_path))
    assert "[/b].yaml does not exist" in refused(capsys, "params", str(tmp_path / "x[/b].yaml"))


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setitem(sys.modules, "edgegpt_export", None)
    message = refused(capsys, "export", "checkpoint", "--out", "x.onnx")
    assert "pip install '.[export]'" in message


def test_a_command_without_arguments_says_what_is_missing(capsys: Capture) -> None:
    assert "Missing argument" in refused(capsys, "generate")
    assert "No such command" in refused(capsys, "generat")
    assert main([]) == 2
    assert "Usage: edgegpt" in capsys.readouterr().out


def test_a_verdict_is_kept_when_nobody_reads_it(tiny_file: str, tmp_path: Path) -> None:
    (tmp_path / "tight.yaml").write_text("name: tight\nparameters: 10\n")
    check = [sys.executable, "-m", "edgegpt", "check", tiny_file, "--budget", str(tmp_path / "tight.yaml")]
    for options in ([], ["--json"]):
        reader, writer = os.pipe()
        os.close(reader)
        run = subprocess.run(
            [*check, *options], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
        )
        os.close(writer)
        assert run.returncode == 1
        assert "falls short of the budget" in run.stderr
