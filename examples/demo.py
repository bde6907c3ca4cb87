"""The main job on the checkpoint that ships: export, verify, say what it is, answer, time it.

make demo
"""

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

import edgegpt
from edgegpt.cli.main import main as edgegpt_command

ROOT = Path(__file__).parents[1]
CHECKPOINT = ROOT / "checkpoints" / "rover"
FILE = ROOT / "runs" / "demo" / "rover.onnx"
INSTRUCTIONS = [
    "drive forward two metres",
    "turn left 90 degrees and then go 50 cm forward",
    "please find the zorbly mug",
    "go to the kitchen, then pick up the red cup",
    "put the wrench on the workbench",
    'say "dinner is ready"',
    "back up six feet and follow me",
    "stop right there",
    "what is the capital of France?",
]

console = Console(highlight=False)


def step(*arguments: str) -> None:
    """Run one command as a user would, and stop where it fails."""
    shown = " ".join(
        Path(a).relative_to(ROOT).as_posix() if a.startswith(str(ROOT)) else a for a in arguments
    )
    console.print(f"\n[bold]$ edgegpt {shown}[/bold]")
    if code := edgegpt_command(list(arguments)):
        sys.exit(code)


def answers() -> Table:
    """Answer every instruction and time it."""
    model = edgegpt.load(FILE)
    table = Table(title="Instructions and commands, one thread, milliseconds", title_justify="left")
    table.add_column("instruction and command", overflow="fold")
    for name in ("tokens", "first", "a token", "total"):
        table.add_column(name, justify="right", no_wrap=True)
    for instruction in INSTRUCTIONS:
        reply = model.generate(instruction)
        timing, usage = reply.timing, reply.usage
        table.add_row(
            Text.assemble(instruction, "\n", (reply.text, "green")),
            f"{usage.prompt_tokens}+{usage.completion_tokens}",
            f"{timing.ttft_ms:.1f}",
            f"{timing.token_p50_ms:.2f}",
            f"{timing.total_ms:.1f}",
            end_section=True,
        )
    return table


def demo() -> None:
    """The whole demonstration."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    step("export", str(CHECKPOINT), "--out", str(FILE))
    step("verify", str(FILE), "--checkpoint", str(CHECKPOINT))
    step("info", str(FILE))
    console.print("\n[bold]>>> edgegpt.load(...).generate(instruction)[/bold]")
    console.print(answers())


if __name__ == "__main__":
    demo()
