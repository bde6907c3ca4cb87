"""What a measuring process reports, and its errors when it cannot."""

import json
import math
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY, Refused
from helpers.tiny_files import tiny_file
from pydantic import TypeAdapter
from test_artifact import NOT_FOR_A_ROBOT

from edgegpt.errors import ArtifactError, MeasureError
from edgegpt.measure import MeasureSpec, ProcessResult, child, measure_process, this_machine
from edgegpt.measure.spec import MIN_ROUNDS
from edgegpt.runtime import Engine

CORES = this_machine().available_cores
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals")
LINUX = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux")
SENTENCE = '{"error": {"kind": "MeasureError", "sentence": "said"}}'
LOAD_ALONE = MeasureSpec(prompts=(), fills=(), longest=False, apart=False, seconds=0.0, idle_seconds=0.0)


@pytest.fixture(scope="module")
def figures(file: Path) -> ProcessResult:
    return measure_process(file, MeasureSpec(seconds=0.0, idle_seconds=0.01, requests=8, burst=4))


# A process


def through_json(figures: ProcessResult) -> ProcessResult:
    return TypeAdapter(ProcessResult).validate_python(json.loads(json.dumps(asdict(figures))))


def test_a_process_measures_the_usual_prompts_and_fills_its_load_and_its_cache(
    figures: ProcessResult, engine: Engine
) -> None:
    assert {n: part.n for n, part in figures.first_token.items()} == dict.fromkeys((8, 32, 47), MIN_ROUNDS)
    assert {n: part.n for n, part in figures.token.items()} == dict.fromkeys((16, 24, 43), 4 * MIN_ROUNDS)
    assert list(figures.first_token) == [8, 32, 47]
    assert list(figures.token) == [16, 24, 43]
    assert len(figures.round_ms) == MIN_ROUNDS
    assert 0 < figures.import_ms < figures.load_ms
    assert figures.first_reply_ms > 0
    assert figures.cache_bytes == engine.new_cache().bytes
    assert through_json(figures) == figures


@LINUX
def test_its_memory_grows_from_imports_to_work_and_is_the_models_alone(figures: ProcessResult) -> None:
    assert figures.imported and figures.loaded and figures.worked  # noqa: PT018
    assert figures.imported.rss_bytes < figures.loaded.rss_bytes <= figures.worked.rss_bytes + 5_000_000
    assert figures.peak_rss_bytes is not None
    assert figures.worked.rss_bytes <= figures.peak_rss_bytes < 200e6  # this process has torch
    assert figures.rss_slope_kb_per_1000 is not None


def test_nothing_of_the_tools_own_is_in_the_process_whose_memory_is_read(file: Path) -> None:
    code = (
        "import sys, numpy, onnxruntime; before = set(sys.modules)\n"
        "from edgegpt.measure import MeasureSpec, child\n"
        "read = child.peak_rss_bytes; loaded = set()\n"
        "child.peak_rss_bytes = lambda: (loaded.update(sys.modules), read())[1]\n"
        "child.measure(sys.argv[1], MeasureSpec(seconds=0.0), lambda _: None); print(*loaded - before)"
    )
    run = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "edgegpt.measure.timing" in loaded
    assert not loaded & NOT_FOR_A_ROBOT


def test_a_load_alone_is_measured_without_a_round(file: Path) -> None:
    figures = measure_process(file, LOAD_ALONE)
    assert (figures.first_token, figures.token, figures.tokenise, figures.draw) == ({}, {}, None, None)
    assert figures.load_ms > 0
    assert through_json(figures) == figures
    if (waited := figures.load_waited_ms) is not None:
        assert figures.waited_percent == pytest.approx(100 * waited / figures.load_ms)


def test_a_load_that_only_waited_is_no_more_than_all_of_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait covers the interpreter's start too, the load begins with the imports."""
    monkeypatch.setattr(child, "waited_seconds", lambda: 1e6)
    assert child.measure(str(file), LOAD_ALONE, lambda _: None).waited_percent == 100


def test_a_spec_comes_through_json_unchanged() -> None:
    other = MeasureSpec(threads=2, capacity=40, prompts=(3, 9), fills=(5,), bandwidth=True)
    for spec in (MeasureSpec(), other):
        assert MeasureSpec.from_json(json.loads(json.dumps(asdict(spec)))) == spec


def test_a_process_measures_what_the_spec_names(file: Path) -> None:
    spec = MeasureSpec(capacity=40, prompts=(3, 39), fills=(30, 2), burst=5, seconds=0.0, idle_seconds=0.0)
    shares: list[float] = []
    figures = measure_process(file, spec, on_progress=shares.append)
    assert list(figures.first_token) == [3, 39]
    assert list(figures.token) == [30, 2]
    assert figures.idle_cpu_percent is None
    assert figures.bandwidth == ()
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 looks into the current folder")
def test_files_of_the_current_folder_are_not_imported(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy.py").write_text("raise RuntimeError")
    monkeypatch.chdir(tmp_path)
    assert measure_process(file, MeasureSpec(seconds=0.0, idle_seconds=0.0)).load_ms > 0


# What cannot be measured


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        ({"prompts": (48,)}, (48, 47)),
        ({"fills": (40,)}, (40, 31)),
        ({"threads": 0}, (0,)),
        ({"threads": CORES + 1}, (CORES + 1, CORES)),
    ],
)
def test_lengths_that_do_not_fit_and_cores_that_are_not_there_are_refused(
    file: Path, refused: Refused, spec: dict[str, Any], values: tuple[int, ...]
) -> None:
    with refused(MeasureError, *values):
        measure_process(file, MeasureSpec(**spec))


@pytest.mark.parametrize(
    ("name", "value"),
    [("seconds", -1.0), ("seconds", math.nan), ("burst", 0), ("repeats", 0), ("requests", -1)],
)
def test_a_spec_that_makes_no_sense_is_refused(refused: Refused, name: str, value: float) -> None:
    with refused(MeasureError, name, value):
        MeasureSpec(**{name: value})  # type: ignore[arg-type]


def test_a_context_without_room_for_the_first_reply_is_too_short(tmp_path: Path, refused: Refused) -> None:
    with refused(MeasureError, 2):
        measure_process(tiny_file(tmp_path, config=replace(TINY, block_size=2)), MeasureSpec(seconds=0.0))


def test_an_error_of_the_child_is_raised_as_if_the_file_were_loaded_here(
    tmp_path: Path, file: Path, refused: Refused
) -> None:
    (tmp_path / "half.onnx").write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    for name in ("none.onnx", "half.onnx"):
        with refused(ArtifactError, name):
            measure_process(tmp_path / name)


@POSIX
@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("kill -9 $$", "SIGKILL"),
        ("cat > /dev/null; kill -11 $$", "SIGSEGV"),
        ("cat > /dev/null; kill -35 $$", "35|SIGRTMIN\\+1"),
        ("echo first >&2; echo last >&2; exit 3", "last"),
        ("cat > /dev/null; echo not json; exit 3", "3"),
        ("cat > /dev/null; echo 3; echo null; echo '[]'; exit 3", "3"),
        (r"cat > /dev/null; printf '\377\n'; exit 3", "3"),
        (f"cat > /dev/null; echo '{SENTENCE}'; echo '{{}}'", "said"),
    ],
)
def test_a_process_that_dies_is_one_sentence_with_the_cause(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, cause: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(MeasureError, match=cause) as raised:
        measure_process(file)
    assert "\n" not in str(raised.value)


def test_an_interrupted_measurement_leaves_no_process(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though Python 3.11 waits a moment for the child after Ctrl-C, and one that ends may take longer."""
    started: list[subprocess.Popen[str]] = []

    class Remembered(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)

        def _wait(self, timeout: float | None) -> Any:
            if timeout is not None:
                raise subprocess.TimeoutExpired("child", timeout)
            return super()._wait(timeout=None)  # type: ignore[misc]

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", Remembered)
    with pytest.raises(KeyboardInterrupt):
        measure_process(file, MeasureSpec(seconds=600.0), on_progress=interrupt)
    assert [child.returncode is not None for child in started] == [True]


@POSIX
def test_a_process_ends_with_the_one_that_started_it() -> None:
    """However that ends: a killed parent cannot stop its child."""
    child_code = (
        "import os, time; from edgegpt.measure import end_with_parent\n"
        "end_with_parent(os.getppid()); print('ready', flush=True); time.sleep(20); print('still here')"
    )
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    with subprocess.Popen(
        [sys.executable, "-c", code, child_code], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        parent.kill()
        assert parent.stdout.read() == ""


def test_what_another_library_prints_is_no_figure(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, in the middle and after; without an end of line too."""
    printed = """import atexit; print('{"figures": 1', end=''); atexit.register(print, '{}')"""
    (tmp_path / "sitecustomize.py").write_text(printed)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert measure_process(file, LOAD_ALONE).load_ms > 0
