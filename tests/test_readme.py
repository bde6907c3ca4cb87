"""What the README shows runs, and what it lists is there."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgegpt.budget.budget import Accuracy, Budget, FirstTokenLatency, TokenLatency
from edgegpt.cli.main import app, main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def tables(block: str) -> list[str]:
    """Headers of the tables that the README shows between this block of sh and the next."""
    _, _, after = README.partition(block)
    return re.findall(r"^┃.*┃$", after.partition("```sh\n")[0], re.MULTILINE)


def shell_blocks() -> Iterator[object]:
    for block in blocks("sh"):
        words = re.findall(r"edgegpt (\w+)|/(pytest)", block)
        judged = any("".join(word) in ("check", "pytest", "report") for word in words)  # by times
        name = " ".join(dict.fromkeys("".join(word) for word in words))
        yield pytest.param(block, id=name, marks=pytest.mark.alone if judged else ())


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rover_file: Path) -> Path:
    """A folder that looks like the repository's root after the blocks that write files for others."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # `edgegpt tune` writes there
    for name in ("checkpoints", "configs"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copy(rover_file, tmp_path / "rover.onnx")
    for block in blocks("sh"):
        for name, text in re.findall(r"^cat > (\S+) <<'END'\n(.*?)^END$", block, re.DOTALL | re.MULTILINE):
            (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("block", list(shell_blocks()))
def test_a_shell_block_runs_and_prints_the_tables_that_are_shown(workplace: Path, block: str) -> None:
    script = block.replace(".venv/bin/edgegpt", f"{sys.executable} -m edgegpt")
    script = script.replace(".venv/bin/pytest", f"{sys.executable} -m pytest")
    script = re.sub(r"--seconds [\d.]+", "--seconds 0.2", script)  # that it runs counts, not the figures
    if re.search(r"export \S+ --out rover\.onnx", block):
        (workplace / "rover.onnx").unlink()
    result = subprocess.run(["sh", "-ec", script], cwd=workplace, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert (workplace / "rover.onnx").is_file()
    assert '{"commands":[' in result.stdout or "edgegpt generate" not in block
    squeezed = re.sub(r"\s+", " ", result.stdout)
    for header in tables(block):
        assert re.sub(r"\s+", " ", header) in squeezed


@pytest.mark.parametrize("block", blocks("python"))
def test_a_python_block_runs(workplace: Path, block: str) -> None:
    result = subprocess.run([sys.executable, "-c", block], cwd=workplace, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith('{"commands":[{"action":"move"')


def test_every_table_that_is_shown_follows_a_block_that_prints_it() -> None:
    shown = re.findall(r"^┃.*┃$", README, re.MULTILINE)
    assert shown == [header for block in blocks("sh") for header in tables(block)]


def test_the_example_of_a_run_trains(tmp_path: Path) -> None:
    (example,) = re.findall(r"   ```yaml\n(.*?)   ```", README, re.DOTALL)
    text = "\n".join(line[3:] for line in example.splitlines())
    (tmp_path / "lamp.yaml").write_text(text.replace("steps: 600", "steps: 3"))
    row = '{"prompt": "make the lamp red", "completion": "LAMP red"}\n'
    (tmp_path / "lamp.jsonl").write_text(row * 50)
    assert main(["train", str(tmp_path / "lamp.yaml")]) == 0
    assert (tmp_path / "runs" / "lamp" / "model.safetensors").is_file()


def test_the_table_of_commands_is_the_list_of_commands() -> None:
    listed = set(re.findall(r"^\| `edgegpt (\w+)", README, re.MULTILINE))
    assert listed == {command.name for command in app.registered_commands}


def test_the_table_of_limits_is_the_list_of_limits() -> None:
    _, _, after = README.partition("| key | limit |\n|---|---|\n")
    keys = "".join(line.split("|")[1] for line in after.partition("\n\n")[0].splitlines())
    limits = Budget.model_fields.keys() - {"name", "threads", "board"}
    nested = {"ttft_ms": FirstTokenLatency, "token_ms": TokenLatency, "accuracy": Accuracy}
    inner = [key for form in nested.values() for key in form.model_fields]
    assert sorted(re.findall(r"[a-z_0-9]+", keys)) == sorted([*limits, *inner])


def test_the_file_tree_is_there() -> None:
    (tree,) = re.findall(r"## The file tree\n\n```\n(.*?)```", README, re.DOTALL)
    for line in tree.splitlines():
        assert (ROOT / line.split()[0]).exists(), line


def test_every_relative_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
