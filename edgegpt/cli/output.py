"""What the commands share for printing: tables for people, JSON for machines."""

import json
from typing import Annotated, Any

import typer
from rich.console import Console

stdout = Console()
stderr = Console(stderr=True)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def print_json(data: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(data, indent=2, ensure_ascii=False))
