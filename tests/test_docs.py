"""What the README and the pages of docs/ show runs, and what they list is there.

Blocks of `sh` and `python` run in the order of their page, in one folder like the repository's root.
Blocks of `bash` and `py` need what no test has: ROS 2, another environment, or many minutes. What takes long
without showing more is shortened: measurements and training, rover's export on all pages but README, and the
free memory, of which `edgegpt profile` tries a tenth as working set.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgegpt.budget.budget import Accuracy, Budget, FirstTokenLatency, TokenLatency
from edgegpt.cli.main import app

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
RUN = ("sh", "python")
NOT_RUN = r"\b(make|pip|source|ros2|ros2_ws/run|edgegpt_ros|edgegpt train|edgegpt profile)\b"
JUDGED_BY_TIMES = r"\b(edgegpt check|edgegpt report|pytest)\b"
EXPORT = "edgegpt export checkpoints/rover --out rover.onnx\n"
COMMANDS = {
    "edgegpt": """
import edgegpt.system
edgegpt.system.available_memory_bytes = lambda: 200_000_000
if __name__ == "__main__":
    from edgegpt.__main__ import run
    run()
""",
    "pytest": "import sys, pytest; sys.exit(pytest.main())",
}


def blocks(page: Path, *languages: str) -> list[tuple[str, str]]:
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [(language, text) for language, text in found if language in languages]


def pages_that_run() -> Iterator[object]:
    for page in PAGES:
        shell = "".join(text for _, text in blocks(page, "sh"))
        marks = [pytest.mark.slow] if shell else []
        if re.search(JUDGED_BY_TIMES, shell):
            marks.append(pytest.mark.alone)
        if blocks(page, *RUN):
            yield pytest.param(page, id=page.stem, marks=marks)


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rover_file: Path) -> Path:
    """A folder with checkpoints, configs and rover.onnx, and the commands on PATH as in an active venv."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # `edgegpt tune` writes there
    for name in ("checkpoints", "configs"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copy(rover_file, tmp_path / "rover.onnx")
    (tmp_path / "bin").mkdir()
    for name, text in COMMANDS.items():
        (tmp_path / "bin" / name).write_text(f"#!{sys.executable}\n{text}")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def shortened(block: str, page: Path) -> str:
    if page != README:  # the workplace has the file
        block = block.replace(EXPORT, "test -f rover.onnx\n")
    block = re.sub(r"seconds [\d.]+", "seconds 0.1", block)
    return re.sub(r"^steps: \d+", "steps: 3", block, flags=re.MULTILINE)


@pytest.mark.parametrize("page", list(pages_that_run()))
def test_the_blocks_of_a_page_run_and_print_the_tables_that_are_shown(workplace: Path, page: Path) -> None:
    printed = ""
    for language, block in blocks(page, *RUN):
        if page == README and EXPORT in block:
            (workplace / "rover.onnx").unlink()
        command = ["sh", "-ec"] if language == "sh" else [sys.executable, "-c"]
        result = subprocess.run(
            [*command, shortened(block, page)], cwd=workplace, capture_output=True, text=True
        )
        assert result.returncode == 0, f"{block}\n{result.stdout}{result.stderr}"
        assert (workplace / "rover.onnx").is_file()
        answers = "edgegpt generate rover.onnx" in block or "drive forward two metres" in block
        assert '{"commands":[' in result.stdout or not answers
        printed += result.stdout
    for header in re.findall(r"^┃.*┃$", page.read_text(encoding="utf-8"), re.MULTILINE):
        assert header.split() in [line.split() for line in printed.splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_block_that_is_not_run_is_text_or_needs_what_no_test_has(page: Path) -> None:
    for language, block in FENCE.findall(page.read_text(encoding="utf-8")):
        assert language in ("", "text", "bash", "py", *RUN)
        assert language not in ("bash", "py") or re.search(NOT_RUN, block), block


def test_the_table_of_commands_is_the_list_of_commands() -> None:
    listed = re.findall(r"^\| `edgegpt (\w+)", (ROOT / "docs" / "index.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(str(command.name) for command in app.registered_commands)


def test_the_table_of_limits_is_the_list_of_limits() -> None:
    page = (ROOT / "docs" / "how-to" / "budgets-and-pytest.md").read_text()
    _, _, after = page.partition("| key | limit |\n|---|---|\n")
    keys = "".join(line.split("|")[1] for line in after.partition("\n\n")[0].splitlines())
    limits = Budget.model_fields.keys() - {"name", "threads", "board"}
    nested = {"ttft_ms": FirstTokenLatency, "token_ms": TokenLatency, "accuracy": Accuracy}
    inner = [key for form in nested.values() for key in form.model_fields]
    assert sorted(re.findall(r"[a-z_0-9]+", keys)) == sorted([*limits, *inner])


def test_the_file_tree_of_the_readme_is_there() -> None:
    (tree,) = [block for _, block in blocks(README, "")]
    top = ""
    for line in tree.splitlines():
        names = re.findall(r"^ *((?:[\w/]+/ )*[\w/]+/)", line)[0].split()
        top = top if line.startswith(" ") else names[0]
        for name in names:
            assert (ROOT / (top + name if line.startswith(" ") else name)).is_dir(), line


def test_every_room_is_in_the_picture_of_rooms_and_nothing_else() -> None:
    picture = (ROOT / "docs" / "figures" / "rooms.svg").read_text()
    package = ROOT / "edgegpt"
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}
    modules = {path.stem for path in package.glob("*.py") if not path.name.startswith("__")}
    assert set(re.findall(r'font-weight="600">(\w+)</text>', picture)) == rooms | modules


def test_every_relative_link_of_the_readme_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README.read_text()):
        assert (ROOT / target).exists(), target


def test_the_readme_is_read_in_a_few_minutes() -> None:
    assert len(README.read_text().splitlines()) <= 150
