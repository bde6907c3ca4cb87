"""The imports of the product's sources, for the tests of fences and shape."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeGuard

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "edgegpt": ROOT,
    "edgegpt_export": ROOT / "export",
    "edgegpt_ros": ROOT / "ros2_ws" / "src" / "edgegpt_ros",
}


class Import(NamedTuple):
    """One module that a file imports, or names of it."""

    file: Path  # from the root
    line: int
    module: str  # absolute, as `edgegpt.config`
    names: tuple[str, ...]  # empty for `import module`
    lazy: bool  # inside a function

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {', '.join(self.names) or 'all'} of {self.module}"

    @property
    def package(self) -> str:
        return self.module.partition(".")[0]

    @property
    def importer(self) -> str:
        """The room of the file."""
        return room_of(dotted(ROOT / self.file))

    @property
    def rooms(self) -> set[str]:
        """Where it leads to: `from edgegpt import contract` is of the room contract."""
        if self.module != "edgegpt":
            return {room_of(self.module)}
        return {name if name in _rooms() else "edgegpt" for name in self.names}


@cache
def sources() -> tuple[Path, ...]:
    return tuple(path for name, base in PACKAGES.items() for path in sorted((base / name).rglob("*.py")))


def dotted(path: Path) -> str:
    """`.../edgegpt/config/__init__.py` -> `edgegpt.config`."""
    base = next(base for name, base in PACKAGES.items() if path.is_relative_to(base / name))
    parts = path.relative_to(base).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """`edgegpt.runtime.engine` -> `runtime`, `edgegpt_export.graph` -> `edgegpt_export`."""
    parts = module.split(".")
    return parts[1] if parts[0] == "edgegpt" and len(parts) > 1 else parts[0]


@cache
def _rooms() -> set[str]:
    return {room_of(dotted(path)) for path in sources()}


@cache
def imports() -> tuple[Import, ...]:
    """Every import of the product but those that only a type checker sees."""
    return tuple(found for path in sources() for found in imports_of(path))


def is_for_type_checkers(node: ast.AST) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imports_of(path: Path) -> Iterator[Import]:
    file = path.relative_to(ROOT)

    def visit(node: ast.AST, lazy: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(file, node.lineno, alias.name, (), lazy)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}:{node.lineno}: imports are absolute"
            names = tuple(alias.name for alias in node.names)
            yield Import(file, node.lineno, node.module or "", names, lazy)
        elif is_for_type_checkers(node):
            for other in node.orelse:
                yield from visit(other, lazy)
        else:
            inside = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            for child in ast.iter_child_nodes(node):
                yield from visit(child, inside)

    return visit(ast.parse(path.read_text(encoding="utf-8")), False)


def first_party() -> tuple[Import, ...]:
    return tuple(found for found in imports() if found.package in PACKAGES)
