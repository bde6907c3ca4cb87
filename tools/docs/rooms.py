"""Read the rooms of `edgegpt/`, their imports of each other and their floors from the source."""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# What each room is for, short enough for the picture; without an entry: its docstring's first line.
DUTIES: Final = {
    "errors": "all errors that edgegpt raises",
    "contract": "names and shapes of a model file",
    "files": "write a file whole or not at all",
    "system": "cores and memory from /proc",
    "tokenizer": "text to token ids and back",
    "config": "ModelConfig, strict YAML",
    "examples": "prompt/completion pairs from JSONL",
    "quantization": "bits per matrix, block layout, bytes",
    "accounting": "parameters, FLOPs, cache bytes",
    "runtime": "one .onnx file to tokens and text",
    "serving": "one engine thread for many clients",
    "model": "the GPT in PyTorch, checkpoint folders",
    "training": "run file, dataset, training loop",
    "measure": "processes, percentiles, intervals",
    "autotune": "fastest thread count on this machine",
    "budget": "limits of a board, and verdicts",
    "pytest_plugin": "each limit of a budget as a test",
    "prediction": "board profile and cost model",
    "profiling": "measure a board for the cost model",
    "planner": "the strongest models within a budget",
    "report": "one HTML page about a release",
    "cli": "one thin file per command",
}


@dataclass(frozen=True)
class Room:
    """A folder of `edgegpt/`, or a module of its root.

    Attributes:
        name: name of the folder or module.
        duty: what the room is for.
        files: number of .py files.
        imports: rooms that it imports at module level, `errors` aside, which all may use.
        floor: 0 where it imports no room, else one more than the highest it imports.
    """

    name: str
    duty: str
    files: int
    imports: tuple[str, ...]
    floor: int


def rooms(package: Path) -> list[Room]:
    """Return the rooms of a package, lowest floor first; raises ValueError where imports form a circle."""
    sources = {
        path.stem if path.is_file() else path.name: [path] if path.is_file() else sorted(path.rglob("*.py"))
        for path in sorted(package.iterdir())
        if (path.suffix == ".py" and not path.name.startswith("__")) or (path / "__init__.py").is_file()
    }
    edges = {
        name: _imported(files, package.name, sources.keys() - {name, "errors"})
        for name, files in sources.items()
    }
    floors: dict[str, int] = {}
    while len(floors) < len(edges):
        ready = [name for name in edges if name not in floors and edges[name] <= floors.keys()]
        if not ready:
            raise ValueError(f"rooms import each other in a circle: {sorted(edges.keys() - floors.keys())}")
        floors |= {name: 1 + max((floors[other] for other in edges[name]), default=-1) for name in ready}
    found = [
        Room(name, _duty(name, files), len(files), tuple(sorted(edges[name])), floors[name])
        for name, files in sources.items()
    ]
    return sorted(found, key=lambda room: (room.floor, room.name))


def rooms_table(package: Path) -> str:
    """Return the table of rooms in Markdown, the highest floor first."""
    rows = ["| room | duty | files | imports |", "|---|---|---|---|"]
    for room in reversed(rooms(package)):
        imports = ", ".join(f"`{name}`" for name in room.imports) or "-"
        rows.append(f"| `{room.name}` | {room.duty} | {room.files} | {imports} |")
    return "\n".join(rows)


def _duty(name: str, files: list[Path]) -> str:
    face = next((path for path in files if path.name == "__init__.py"), files[0])
    docstring = ast.get_docstring(ast.parse(face.read_text(encoding="utf-8"))) or ""
    return DUTIES.get(name, docstring.partition("\n")[0].rstrip("."))


def _imported(files: list[Path], package: str, names: set[str]) -> set[str]:
    found = set()
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:  # imports inside functions and under TYPE_CHECKING are not edges
            dotted: list[str] = []
            if isinstance(node, ast.Import):
                dotted = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                dotted = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {
                parts[1] for name in dotted if (parts := name.split("."))[0] == package and len(parts) > 1
            }
    return found & names
