"""Draw docs/figures/terminal.svg: real commands and their real output, for the first page.

    python tools/docs/terminal_figure.py

It exports rover, answers an instruction and serves it over ROS 2, so it needs `make setup` and `make ros`.
"""

import io
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT: Final = Path(__file__).parents[2]
OUT: Final = ROOT / "docs" / "figures" / "terminal.svg"
COLUMNS: Final = 101

_THEME: Final = TerminalTheme(
    (24, 28, 35),
    (215, 220, 226),
    [
        (24, 28, 35),
        (224, 108, 117),
        (152, 195, 121),
        (229, 192, 123),
        (97, 175, 239),
        (198, 120, 221),
        (86, 182, 194),
        (215, 220, 226),
    ],
    [
        (110, 118, 129),
        (224, 108, 117),
        (152, 195, 121),
        (229, 192, 123),
        (97, 175, 239),
        (198, 120, 221),
        (86, 182, 194),
        (255, 255, 255),
    ],
)
# rich's own template, without the web font that it loads and without the title bar.
_SVG: Final = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<title>edgegpt: export with verification, an instruction answered, and the same over ROS 2</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def record() -> Console:
    """Run the commands in an empty folder, and print what they print."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "checkpoints").symlink_to(ROOT / "checkpoints")
        edgegpt = [sys.executable, "-m", "edgegpt"]
        instruction = "go to the kitchen and find the red mug"
        _prompt(console, "edgegpt export checkpoints/rover --out rover.onnx")
        export = _output([*edgegpt, "export", "checkpoints/rover", "--out", "rover.onnx"], folder)
        console.print(Text.from_ansi(export.rstrip()), end="\n\n")
        _prompt(console, f'edgegpt generate rover.onnx "{instruction}"')
        answer = _output([*edgegpt, "generate", "rover.onnx", instruction], folder)
        console.print(Text(answer.rstrip(), style="green"), end="\n\n")
        ros_run = os.environ.get("ROS_RUN", str(ROOT / "ros2_ws" / "run"))
        demo = [ros_run, "--", "python", str(ROOT / "examples" / "ros_demo.py"), f"{folder}/rover.onnx"]
        _ros(console, _output(demo, folder, ros=True))
    console.print()  # the picture cuts the descenders of its last line
    return console


def _ros(console: Console, output: str) -> None:
    """Print the demo's command, and requests and answers that fit into a line each."""
    lines = [line for line in output.splitlines() if line.strip()]
    _prompt(console, lines[0].removeprefix("$ "))
    exchanges = pairwise(lines[1:])
    short = [pair for pair in exchanges if " <- " in pair[0] and " -> " in pair[1] and len(pair[1]) < COLUMNS]
    for line in [line for pair in short for line in pair]:
        name, arrow, text = line[:9], line[9:11], line[12:]
        style = "green" if arrow == "->" else ""
        console.print(Text.assemble((name, "bold"), (arrow, "bright_black"), " ", (text, style)))


def _prompt(console: Console, command: str) -> None:
    console.print(Text.assemble(("$ ", "bright_black"), (command, "bold bright_white")))


def _output(command: list[str], folder: str, ros: bool = False) -> str:
    environment = os.environ | {"COLUMNS": str(COLUMNS)}
    if ros:
        environment.pop("PYTHONPATH", None)  # the ROS environment has an edgegpt of its own
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    svg = record().export_svg(
        title="rover", theme=_THEME, code_format=_SVG, font_aspect_ratio=0.6, unique_id="edgegpt"
    )
    OUT.write_text(svg, encoding="utf-8")
