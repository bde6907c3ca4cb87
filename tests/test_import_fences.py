"""Who may import whom. A new module of edgegpt gets its place in LAYERS."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent

# From the bottom up. A module imports from the layers below its own, and from its own layer.
LAYERS: dict[str, set[str]] = {
    "errors": {"errors"},
    "plain functions": {
        "atomic",
        "contract",
        "cores",
        "deadline",
        "divergence",
        "fair_lock",
        "mistakes",
        "onnx_metadata",
        "packing",
        "ort_session",
        "pairs",
        "quantity",
        "reply",
        "short_cause",
        "stop",
        "tuning",
        "yaml_file",
        "file_kind",
        "yaml_kinds",
        "yaml_model",
    },
    "config": {"config"},
    "from a config": {"accounting", "precision"},
    "parts": {"constraints", "fitting", "graph_check", "kv_cache", "sampling", "step", "tokenizer"},
    "artifact": {"artifact"},
    "engine": {"engine"},  # token ids in, token ids out
    "generator": {"generator", "session", "turn"},  # text in, text out
    "server": {"request_queue", "server", "server_statistics", "session_store", "ticket", "token_count"},
    "judged": {
        "autotune",
        "board",
        "budget",
        "budget_fit",
        "call_costs",
        "check",
        "check_plan",
        "estimates",
        "evaluation",
        "file_checks",
        "interpolation",
        "measure",
        "memory_need",
        "op_costs",
        "own_samples",
        "planner",
        "prediction",
        "profiling",
        "report",
        "row_text",
        "target",
        "verdict",
    },
    "edges": {"cli", "pytest_held", "pytest_items", "pytest_plugin", "schemas"},
}
RANK = {module: rank for rank, modules in enumerate(LAYERS.values()) for module in modules}

# The workstation's half of edgegpt. Nothing of the above imports it, but for a command inside a
# function. Itself it may import what is up to "parts".
WORKSTATION = {"model", "checkpoint", "training"}
HIGHEST_FOR_WORKSTATION = RANK["tokenizer"]

# What keeps text, files and threads out of the inner loop.
ENGINE_NEVER_LOADS = {"artifact", "tokenizer", "generator", "session", "turn", "stop"}
ENGINE_PARTS = {"engine", "fair_lock", "kv_cache", "sampling", "step"}

# Library -> the only places that import it, as path prefixes from the root.
LIBRARIES = {
    "torch": ("edgegpt/model.py", "edgegpt/checkpoint.py", "edgegpt/training/", "export/"),
    "safetensors": ("edgegpt/checkpoint.py", "edgegpt/training/", "export/"),
    "lightning_fabric": ("edgegpt/training/",),
    "onnx": ("export/",),
    "onnxscript": ("export/",),
    "transformers": ("export/edgegpt_export/importers/",),
    "matplotlib": ("edgegpt/measure/plot.py", "edgegpt/report/charts.py"),
    "jinja2": ("edgegpt/report/page.py",),
    "markupsafe": ("edgegpt/report/",),
    "pytest": ("edgegpt/pytest_",),
    "ray": ("edgegpt/planner/ray_cluster.py",),
    "rclpy": ("ros2_ws/",),
    "edgegpt_ros": ("ros2_ws/",),
}

RUNTIME_DEPENDENCIES = {"numpy", "onnxruntime", "tokenizers", "pyyaml", "rich", "typer", "pydantic"}


class Import(NamedTuple):
    file: str
    line: int
    module: str  # absolute, as `edgegpt.config`
    lazy: bool  # inside a function

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module}"


def imports_of(path: Path) -> Iterator[Import]:
    """Every import of a file, but for those that only a type checker sees."""
    file = path.relative_to(ROOT).as_posix()
    package = (
        path.relative_to(ROOT / "export" if file.startswith("export/") else ROOT).with_suffix("").parts[:-1]
    )

    def visit(node: ast.AST, lazy: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(file, node.lineno, alias.name, lazy)
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            base += node.module.split(".") if node.module else []
            for alias in node.names:
                yield Import(file, node.lineno, ".".join([*base, alias.name]), lazy)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for other in node.orelse:
                yield from visit(other, lazy)
        else:
            inside = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            for child in ast.iter_child_nodes(node):
                yield from visit(child, inside)

    return visit(ast.parse(path.read_text(encoding="utf-8"), file), False)


SOURCES = sorted(
    path
    for folder in ("edgegpt", "export/edgegpt_export", "ros2_ws/src")
    for path in (ROOT / folder).rglob("*.py")
    if (ROOT / folder).is_dir()
)
IMPORTS = [found for path in SOURCES for found in imports_of(path)]


def module_of(name: str) -> str:
    """`edgegpt.training.loop` -> `training`; what is not in edgegpt -> ``."""
    package, _, rest = name.partition(".")
    return rest.partition(".")[0] if package == "edgegpt" else ""


def source_module(found: Import) -> str:
    """The module of edgegpt that a file of it is or belongs to."""
    return found.file.removeprefix("edgegpt/").partition("/")[0].removesuffix(".py")


INSIDE = [
    found
    for found in IMPORTS
    if found.file.startswith("edgegpt/") and found.file != "edgegpt/__init__.py" and module_of(found.module)
]


def in_a_fresh_interpreter(*modules: str) -> set[str]:
    """The modules that importing these loads."""
    code = f"import sys; import {', '.join(modules)}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(run.stdout.split())


# What a robot's process loads


@pytest.mark.parametrize("module", ["edgegpt", "edgegpt.runtime.generator"])
def test_the_robot_loads_none_of_the_workstations_libraries(module: str) -> None:
    loaded = in_a_fresh_interpreter(module)
    assert not loaded & {
        "torch",
        "onnx",
        "rclpy",
        "rich",
        "typer",
        "safetensors",
        "transformers",
        "edgegpt_export",
    }
    assert module in loaded


def test_the_robots_half_needs_neither_pydantic_nor_yaml() -> None:
    """More of the kind, and with a file loaded: test_artifact."""
    loaded = in_a_fresh_interpreter(
        "edgegpt.runtime.generator", "edgegpt.serving.server", "edgegpt.serving.server"
    )
    assert not loaded & {"pydantic", "pydantic_core", "yaml"}


def test_the_command_line_starts_without_torch_and_onnx() -> None:
    assert not in_a_fresh_interpreter("edgegpt.cli.main") & {"torch", "onnx", "edgegpt_export"}


def test_the_engine_knows_no_text() -> None:
    loaded = in_a_fresh_interpreter(*(f"edgegpt.{name}" for name in sorted(ENGINE_PARTS)))
    assert not loaded & {f"edgegpt.{name}" for name in ENGINE_NEVER_LOADS}
    assert "tokenizers" not in loaded


def test_a_config_is_read_without_numpy_and_onnxruntime() -> None:
    assert not in_a_fresh_interpreter("edgegpt.config", "edgegpt.accounting") & {"numpy", "onnxruntime"}


# What the sources say


def test_every_module_of_edgegpt_has_its_place_in_the_table() -> None:
    modules = {
        path.name.removesuffix(".py") for path in (ROOT / "edgegpt").iterdir() if path.name[0] not in "_."
    }
    modules -= {"py.typed"}
    placed = RANK.keys() | WORKSTATION
    assert not modules - placed, "give the new module a layer in LAYERS, or put it into WORKSTATION"


def test_a_module_imports_only_from_its_own_layer_and_those_below() -> None:
    upward = [
        str(found)
        for found in INSIDE
        if source_module(found) in RANK
        and module_of(found.module) in RANK
        and RANK[module_of(found.module)] > RANK[source_module(found)]
    ]
    assert not upward


def test_only_an_edge_imports_the_workstations_half_and_only_inside_a_function() -> None:
    wrong = [
        str(found)
        for found in INSIDE
        if module_of(found.module) in WORKSTATION
        and source_module(found) not in WORKSTATION
        and not (source_module(found) in LAYERS["edges"] and found.lazy)
    ]
    assert not wrong


def test_the_workstations_half_imports_nothing_of_the_engine_and_above() -> None:
    wrong = [
        str(found)
        for found in INSIDE
        if source_module(found) in WORKSTATION
        and RANK.get(module_of(found.module), 0) > HIGHEST_FOR_WORKSTATION
    ]
    assert not wrong


def test_edgegpt_finds_the_exporter_only_from_a_command_and_lazily() -> None:
    wrong = [
        str(found)
        for found in IMPORTS
        if found.module.split(".")[0] == "edgegpt_export"
        and not found.file.startswith(("export/", "ros2_ws/"))
        and not (found.file.startswith(("edgegpt/cli/", "edgegpt/pytest_items")) and found.lazy)
    ]
    assert not wrong


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_is_imported_only_where_it_belongs(library: str) -> None:
    wrong = [
        str(found)
        for found in IMPORTS
        if found.module.split(".")[0] == library and not found.file.startswith(LIBRARIES[library])
    ]
    assert not wrong


def test_the_engine_and_the_exporter_meet_in_the_contract_alone() -> None:
    """The exporter reads a finished file back through `artifact`, but builds none with the engine's parts.

    `task` alone answers a user's examples with a file, as the robot would.
    """
    wrong = [
        str(found)
        for found in IMPORTS
        if found.file.startswith("export/")
        and found.file != "export/edgegpt_export/task.py"
        and module_of(found.module) in {"engine", "generator", "kv_cache", "step", "session", "turn"}
    ]
    assert not wrong


# What an installation without extras brings


def test_the_runtime_needs_exactly_these_seven_libraries() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {line.split(">")[0].lower() for line in project["dependencies"]} == RUNTIME_DEPENDENCIES
    assert len(project["dependencies"]) == len(RUNTIME_DEPENDENCIES)


def test_every_requirement_is_a_lower_bound_only() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    for line in lines:
        if not line.startswith("edgegpt["):
            assert ">=" in line, line
            assert not any(sign in line for sign in ("<", "==", "~", "!", ",")), line


def test_every_error_that_a_user_may_meet_is_at_home_in_errors() -> None:
    elsewhere = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in SOURCES
        if path.is_relative_to(ROOT / "edgegpt") and path.name != "errors.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Error") for base in node.bases)
    ]
    assert not elsewhere
