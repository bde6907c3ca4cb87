"""The rooms of the product: who imports whom, what an entry loads, and how large things may grow."""

import ast
import itertools
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest
from helpers.imports import (
    ROOT,
    Import,
    dotted,
    first_party,
    imports,
    is_for_type_checkers,
    room_of,
    sources,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Which rooms a room imports from, inside functions too. `errors` and the package itself are below every
# room and left out. An edge that nothing uses any more fails, so the table stays true.
ROOMS = {
    room: set(names.split())
    for room, names in {
        "contract": "",
        "files": "",
        "system": "",
        "tokenizer": "",
        "config": "files",
        "examples": "config tokenizer",
        "quantization": "config",
        "accounting": "config quantization",
        "runtime": "accounting config contract examples files quantization system tokenizer",
        "serving": "runtime",
        "measure": "files runtime system",
        "autotune": "measure runtime system",
        "budget": "accounting config contract examples files measure runtime system tokenizer",
        "prediction": "accounting config contract measure quantization runtime",
        "pytest_plugin": "budget config edgegpt_export measure runtime",
        "profiling": "accounting config contract measure prediction quantization runtime system",
        "planner": "accounting budget config measure prediction quantization system tokenizer",
        "report": "accounting budget config contract files measure prediction quantization runtime",
        "model": "config files tokenizer",
        "training": "config examples files model tokenizer",
        "edgegpt_export": "config contract examples model quantization runtime tokenizer",
        "cli": "accounting autotune budget config edgegpt_export examples files measure planner "
        "prediction profiling quantization report runtime training",
        "edgegpt_ros": "accounting budget runtime serving system",
    }.items()
}
BELOW_ALL = {"errors", "edgegpt"}
PROCESS_ENTRIES = {"edgegpt.measure.child", "edgegpt.autotune.child"}

# They load torch or onnx: elsewhere they are imported inside a function.
WORKSTATION = {"model", "training", "edgegpt_export"}

# Library -> the only places that import it, as path prefixes from the root.
LIBRARIES = {
    "torch": ("edgegpt/model/", "edgegpt/training/", "export/"),
    "safetensors": ("edgegpt/model/", "edgegpt/training/", "export/"),
    "lightning_fabric": ("edgegpt/training/",),
    "onnx": ("export/",),
    "onnxscript": ("export/",),
    "transformers": ("export/edgegpt_export/importers/",),
    "pydantic": (
        "edgegpt/budget/",
        "edgegpt/cli/",
        "edgegpt/config/schema.py",
        "edgegpt/measure/process.py",
        "edgegpt/planner/",
        "edgegpt/prediction/target.py",
        "edgegpt/report/",
        "edgegpt/training/config.py",
    ),
    "yaml": ("edgegpt/config/", "edgegpt/planner/planner.py", "edgegpt/prediction/target.py"),
    "matplotlib": ("edgegpt/measure/plot.py", "edgegpt/report/charts.py"),
    "jinja2": ("edgegpt/report/html.py",),
    "markupsafe": ("edgegpt/report/",),
    "pytest": ("edgegpt/pytest_plugin/",),
    "ray": ("edgegpt/planner/ray_backend.py",),
    "rclpy": ("ros2_ws/",),
}
RUNTIME_DEPENDENCIES = {"numpy", "onnxruntime", "tokenizers", "pyyaml", "rich", "typer", "pydantic"}
NOT_ON_A_ROBOT = {"torch", "onnx", "pydantic", "yaml", "typer", "rich", "matplotlib", "edgegpt_export"}
NO_RUNTIME = {"numpy", "onnxruntime", *NOT_ON_A_ROBOT}

MOST_MODULES_IN_THE_ROOT = 10
MOST_FILES_IN_A_ROOM = 16
MOST_LINES_OF_A_FILE = 400
LEAST_LINES_OF_A_FILE = 40
# Lower these when the code allows it, never raise them.
MOST_IMPORTS_PER_1000_LINES = 26.0
MOST_IMPORTS_OF_A_FILE_ON_AVERAGE = 3.5


# Who imports whom


def places(wrong: Callable[[Import], bool]) -> list[str]:
    return [str(found) for found in imports() if wrong(found)]


def test_every_room_has_its_place_in_the_table() -> None:
    assert {room_of(dotted(path)) for path in sources()} - BELOW_ALL - {"__main__"} == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_from_the_rooms_of_its_row_and_from_all_of_them(room: str) -> None:
    used: dict[str, list[str]] = defaultdict(list)
    for found in first_party():
        if found.importer == room:
            for other in found.rooms - BELOW_ALL - {room}:
                used[other].append(str(found))
    assert not {other: where for other, where in used.items() if other not in ROOMS[room]}
    assert not ROOMS[room] - used.keys(), "nothing uses these edges any more; remove them"


def test_the_table_has_no_circle() -> None:
    list(TopologicalSorter(ROOMS).static_order())  # raises CycleError


def test_only_names_of_a_rooms_face_are_imported_from_outside_it() -> None:
    def wrong(found: Import) -> bool:
        room = room_of(found.module)
        inside = found.package == "edgegpt" and found.module.count(".") > 1 and room != found.importer
        return inside and found.module not in PROCESS_ENTRIES and room != "cli"  # which __main__ starts

    assert not places(wrong)


@pytest.mark.parametrize("face", [path for path in sources() if path.name == "__init__.py"], ids=dotted)
def test_a_lazy_face_gives_every_name_that_it_shows_to_a_type_checker(face: Path) -> None:
    text = face.read_text(encoding="utf-8")
    if "lazy_names(" in text:
        module = import_module(dotted(face))
        (shown,) = (node for node in ast.walk(ast.parse(text)) if is_for_type_checkers(node))
        parts = [part for part in ast.walk(shown) if isinstance(part, ast.ImportFrom)]
        assert not [name.name for part in parts for name in part.names if not hasattr(module, name.name)]


def test_what_loads_torch_or_onnx_is_imported_inside_functions_alone() -> None:
    def wrong(found: Import) -> bool:
        return bool(found.rooms & WORKSTATION) and found.importer not in WORKSTATION and not found.lazy

    assert not places(wrong)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_is_imported_only_where_it_belongs(library: str) -> None:
    assert not places(
        lambda found: found.package == library and not found.file.as_posix().startswith(LIBRARIES[library])
    )


def test_the_exporter_builds_no_file_with_the_engines_parts() -> None:
    """It reads a finished file back; `task_accuracy` alone answers a user's examples, as the robot does."""

    def wrong(found: Import) -> bool:
        parts = {"Engine", "KVCache", "Session", "TextGenerator", "load"} & set(found.names)
        return found.importer == "edgegpt_export" and found.module == "edgegpt.runtime" and bool(parts)

    assert {place.partition(":")[0] for place in places(wrong)} <= {"export/edgegpt_export/task_accuracy.py"}


# What an entry loads


@pytest.mark.parametrize(
    ("entry", "never"),
    [
        ("edgegpt", {"tokenizers", *NO_RUNTIME}),
        ("edgegpt.config", NO_RUNTIME),
        ("edgegpt.accounting", NO_RUNTIME),
        ("edgegpt.quantization", NO_RUNTIME),
        ("edgegpt.runtime.engine", {"tokenizers", "edgegpt.runtime.artifact", *NOT_ON_A_ROBOT}),
        ("edgegpt.runtime.generator", NOT_ON_A_ROBOT),
        ("edgegpt.serving", NOT_ON_A_ROBOT),
        ("edgegpt.measure.leak", NOT_ON_A_ROBOT),
        ("edgegpt.cli.main", {"torch", "onnx", "matplotlib", "edgegpt_export"}),
        ("edgegpt.pytest_plugin", {"numpy", "onnxruntime", "pydantic", "yaml", "typer", "rich"}),
        ("edgegpt.planner.planner", {"torch", "onnx", "edgegpt_export"}),
        ("edgegpt.profiling.profile", {"torch", "onnx", "edgegpt_export"}),
        ("edgegpt_export.graph", {"torch", "edgegpt.model"}),
        ("edgegpt_export.synthetic", {"torch", "edgegpt.model"}),
    ],
)
def test_an_entry_loads_nothing_that_it_does_not_need(entry: str, never: set[str]) -> None:
    """For the ROS node: tests/ros/test_workspace.py. A robot without torch profiles itself and plans."""
    code = f"import sys, {entry}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(run.stdout.split())
    assert entry in loaded
    assert not loaded & never


# What an installation without extras brings

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_runtime_needs_exactly_these_seven_libraries() -> None:
    names = [line.split(">")[0].lower() for line in PROJECT["dependencies"]]
    assert sorted(names) == sorted(RUNTIME_DEPENDENCIES)


def test_every_requirement_is_a_lower_bound_only() -> None:
    for line in itertools.chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()):
        if not line.startswith(f"{PROJECT['name']}["):
            assert ">=" in line, line
            assert not any(sign in line for sign in ("<", "==", "~", "!", ",")), line


def test_every_error_that_a_user_may_meet_is_at_home_in_errors() -> None:
    elsewhere = [
        f"{path}:{node.lineno} {node.name}"
        for path in sources()
        if path.is_relative_to(ROOT / "edgegpt") and path.name != "errors.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Error") for base in node.bases)
    ]
    assert not elsewhere


# Shape

LINES = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in sources()}


def test_rooms_and_the_root_are_small_enough_to_be_looked_over() -> None:
    files = Counter(path.parent.relative_to(ROOT).as_posix() for path in sources())
    assert files["edgegpt"] <= MOST_MODULES_IN_THE_ROOT
    large = {folder for folder, n in files.items() if n > MOST_FILES_IN_A_ROOM}
    assert not large - {"ros2_ws/src/edgegpt_ros/edgegpt_ros"}  # one package, as ROS expects it


def test_a_file_has_one_duty_and_enough_of_it() -> None:
    assert not [path for path, n in LINES.items() if n > MOST_LINES_OF_A_FILE]
    small = {path for path, n in LINES.items() if n < LEAST_LINES_OF_A_FILE}
    assert not [path for path in small if path.name not in ("__init__.py", "__main__.py")]


def test_files_import_little_of_each_other() -> None:
    """What a file imports when it is loaded, each module once; inside functions, nothing is counted."""
    edges = {
        (found.file, f"edgegpt.{room}" if found.module == "edgegpt" else found.module)
        for found in first_party()
        if not found.lazy
        for room in found.rooms
    }
    assert 1000 * len(edges) / sum(LINES.values()) <= MOST_IMPORTS_PER_1000_LINES
    assert len(edges) / len(LINES) <= MOST_IMPORTS_OF_A_FILE_ON_AVERAGE
