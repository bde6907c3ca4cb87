"""What the README shows runs, and what it lists is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from edgegpt.cli.main import app, main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like the repository's root, to run the blocks in."""
    folder = tmp_path_factory.mktemp("readme")
    for name in ("checkpoints", "configs"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def test_the_shell_blocks_run_and_then_the_python_blocks(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # `edgegpt tune` writes there
    assert blocks("sh")
    assert blocks("python")
    printed = ""
    for block in blocks("sh"):
        script = block.replace(".venv/bin/edgegpt", f"{sys.executable} -m edgegpt")
        script = script.replace(".venv/bin/pytest", f"{sys.executable} -m pytest")
        script = re.sub(r"--seconds [\d.]+", "--seconds 0.2", script)  # that it runs counts, not the figures
        result = subprocess.run(["sh", "-ec", script], cwd=workplace, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr
        printed += result.stdout
    assert '{"commands":[' in printed
    squeezed = re.sub(r"\s+", " ", printed)
    for header in re.findall(r"^┃.*┃$", README, re.MULTILINE):  # of the tables that are shown
        assert re.sub(r"\s+", " ", header) in squeezed
    for block in blocks("python"):
        result = subprocess.run([sys.executable, "-c", block], cwd=workplace, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
    assert result.stdout.startswith('{"commands":[{"action":"move"')


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


def test_the_file_tree_is_there() -> None:
    (tree,) = re.findall(r"## The file tree\n\n```\n(.*?)```", README, re.DOTALL)
    for line in tree.splitlines():
        assert (ROOT / line.split()[0]).exists(), line


def test_every_relative_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
