"""The main job on the checkpoint that ships: export to a verified file, and answer instructions with it.

make demo
"""

import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

import edgegpt
from edgegpt.errors import EdgeGPTError
from edgegpt_export import export_checkpoint

ROOT = Path(__file__).parents[1]
CHECKPOINT = ROOT / "checkpoints" / "rover"
FILE = ROOT / "runs" / "demo" / "rover.onnx"
INSTRUCTIONS = [
    "drive forward two metres",
    "go to the kitchen, then pick up the red cup",
    "please find the zorbly mug",
    "back up six feet and follow me",
    "stop right there",
    "what is the capital of France?",
]

console = Console(highlight=False)


def export() -> None:
    """Export the checkpoint and print the size of the file and its difference from PyTorch."""
    checkpoint, file = CHECKPOINT.relative_to(ROOT), FILE.relative_to(ROOT)
    console.print(f"[bold]$ edgegpt export {checkpoint} --out {file}[/bold]")
    FILE.parent.mkdir(parents=True, exist_ok=True)
    try:
        report = export_checkpoint(CHECKPOINT, FILE)
    except EdgeGPTError as error:
        sys.exit(str(error))
    difference = max(row.max_abs for row in report.evidence.rows)
    console.print(
        f"{report.bytes / 1e6:.2f} MB, verified: logits differ from PyTorch's by at most {difference:.0e}"
    )


def answer() -> None:
    """Print the command, its tokens and its time for every instruction."""
    console.print(f'\n[bold]>>> edgegpt.load("{FILE.name}").generate(instruction)[/bold]')
    model = edgegpt.load(FILE)
    for instruction in INSTRUCTIONS:
        reply = model.generate(instruction)
        took = f"{reply.usage.completion_tokens} tokens in {reply.timing.total_ms:.1f} ms"
        console.print(Text.assemble(f"{instruction:<48}", (took, "dim")))
        console.print(Text.assemble("  -> ", (reply.text, "green")), soft_wrap=True)


def demo() -> None:
    """Show the way from a checkpoint to commands, and name the commands that show more."""
    export()
    answer()
    console.print("\nMore about the file: edgegpt info, verify, bench, report (in .venv/bin)")


if __name__ == "__main__":
    demo()
