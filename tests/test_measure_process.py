"""What a measuring process reports, and what it says when it cannot."""

import json
import math
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY
from helpers.tiny_files import tiny_file
from test_artifact import NOT_FOR_A_ROBOT

from edgegpt.errors import ArtifactError, MeasureError
from edgegpt.measure import child, process
from edgegpt.measure.machine import this_machine
from edgegpt.measure.process import measure_process
from edgegpt.measure.spec import (
    MIN_ROUNDS,
    MeasureSpec,
    ProcessResult,
    result_from_json,
    result_to_json,
    spec_from_json,
)
from edgegpt.runtime.engine import Engine

LINUX = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux tells")


@pytest.fixture(scope="module")
def figures(file: Path) -> ProcessResult:
    return measure_process(file, MeasureSpec(seconds=0.0, idle_seconds=0.01, requests=8, burst=4))


# A process


def test_a_process_measures_the_usual_prompts_and_fills(figures: ProcessResult) -> None:
    assert list(figures.first_token) == [8, 32, 47]
    assert list(figures.token) == [16, 24, 43]
    assert {part.n for part in figures.first_token.values()} == {MIN_ROUNDS}
    assert {part.n for part in figures.token.values()} == {MIN_ROUNDS * 4}
    assert len(figures.round_ms) == MIN_ROUNDS


def test_its_load_time_holds_its_imports(figures: ProcessResult) -> None:
    assert 0 < figures.import_ms < figures.load_ms
    assert figures.first_reply_ms > 0


def test_its_cache_is_counted(figures: ProcessResult, engine: Engine) -> None:
    assert figures.cache_bytes == engine.new_cache().bytes


@LINUX
def test_its_memory_grows_from_imports_to_work_and_is_the_models_alone(figures: ProcessResult) -> None:
    assert figures.imported is not None
    assert figures.loaded is not None
    assert figures.worked is not None
    assert figures.imported.rss_bytes < figures.loaded.rss_bytes <= figures.worked.rss_bytes + 5_000_000
    assert figures.peak_rss_bytes is not None
    assert figures.worked.rss_bytes <= figures.peak_rss_bytes < 200e6  # this process has torch
    assert figures.rss_slope_kb_per_1000 is not None


def test_nothing_of_the_tools_own_is_in_the_process_whose_memory_is_read(file: Path) -> None:
    code = (
        "import sys, numpy, onnxruntime; before = set(sys.modules)\n"
        "from edgegpt.measure import child; from edgegpt.measure.spec import Plan\n"
        "read = child.peak_rss_bytes; loaded = set()\n"
        "child.peak_rss_bytes = lambda: (loaded.update(sys.modules), read())[1]\n"
        "child.measure(sys.argv[1], Plan(seconds=0.0), lambda _: None); print(*loaded - before)"
    )
    run = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "edgegpt.measure.timing" in loaded
    assert not loaded & NOT_FOR_A_ROBOT


def test_a_load_alone_is_measured_without_a_round(file: Path) -> None:
    plan = MeasureSpec(prompts=(), fills=(), longest=False, apart=False, seconds=0.0, idle_seconds=0.0)
    figures = measure_process(file, plan)
    assert (figures.first_token, figures.token, figures.tokenise, figures.draw) == ({}, {}, None, None)
    assert figures.load_ms > 0
    assert result_from_json(json.loads(json.dumps(result_to_json(figures)))) == figures
    if (waited := figures.load_waited_ms) is not None:
        assert figures.waited_percent == pytest.approx(100 * waited / figures.load_ms)


def test_a_load_that_only_waited_is_no_more_than_all_of_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait is of the interpreter's start too, the load begins with the imports."""
    monkeypatch.setattr(child, "waited_seconds", lambda: 1e6)
    plan = MeasureSpec(prompts=(), fills=(), longest=False, apart=False, seconds=0.0, idle_seconds=0.0)
    assert child.measure(str(file), plan, lambda _: None).waited_percent == 100


def test_figures_come_through_json_unchanged(figures: ProcessResult) -> None:
    assert result_from_json(json.loads(json.dumps(result_to_json(figures)))) == figures


def test_a_plan_comes_through_json_unchanged() -> None:
    for plan in (
        MeasureSpec(),
        MeasureSpec(threads=2, capacity=40, prompts=(3, 9), fills=(5,), bandwidth=True),
    ):
        assert spec_from_json(json.loads(json.dumps(asdict(plan)))) == plan


def test_a_process_measures_what_the_plan_names(file: Path) -> None:
    plan = MeasureSpec(capacity=40, prompts=(3, 39), fills=(30, 2), burst=5, seconds=0.0, idle_seconds=0.0)
    shares: list[float] = []
    figures = measure_process(file, plan, on_progress=shares.append)
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
    ("plan", "sentence"),
    [
        ({"prompts": (48,)}, "a prompt must have from 1 to 47 tokens, got 48; the context holds 48"),
        ({"fills": (40,)}, "a cache that is to take 16 more must have from 1 to 31 tokens, got 40"),
    ],
)
def test_lengths_that_do_not_fit_are_refused(file: Path, plan: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MeasureError, match=sentence):
        measure_process(file, MeasureSpec(**plan))


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        ({"seconds": -1.0}, r"seconds must be a number of at least 0, got -1\.0"),
        ({"seconds": math.nan}, "seconds must be a number of at least 0, got nan"),
        ({"burst": 0}, "burst must be at least 1, got 0"),
        ({"repeats": 0}, "repeats must be at least 1, got 0"),
        ({"requests": -1}, "requests must be a number of at least 0, got -1"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(plan: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MeasureError, match=sentence):
        MeasureSpec(**plan)


def test_a_context_without_room_for_the_first_reply_is_called_too_short(tmp_path: Path) -> None:
    short = tiny_file(tmp_path, config=replace(TINY, block_size=2))
    with pytest.raises(MeasureError, match="a context of 2 tokens is too short to measure"):
        measure_process(short, MeasureSpec(seconds=0.0))


def test_threads_beyond_the_cores_are_refused(file: Path) -> None:
    cores = this_machine().available_cores
    with pytest.raises(MeasureError, match=f"at most {cores}, the cores .* got {cores + 1}"):
        measure_process(file, MeasureSpec(threads=cores + 1))
    with pytest.raises(MeasureError, match="at least 1, got 0"):
        measure_process(file, MeasureSpec(threads=0))


def test_what_is_wrong_with_a_file_is_said_as_if_it_were_loaded_here(tmp_path: Path, file: Path) -> None:
    with pytest.raises(ArtifactError, match="does not exist"):
        measure_process(tmp_path / "none.onnx")
    (tmp_path / "half.onnx").write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(ArtifactError, match="not a whole ONNX file"):
        measure_process(tmp_path / "half.onnx")


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("kill -9 $$", "was ended by SIGKILL; the system may have run out of memory"),
        ("cat > /dev/null; kill -11 $$", "was ended by SIGSEGV$"),
        ("cat > /dev/null; kill -35 $$", r"was ended by (SIGRTMIN\+1|signal 35)$"),
        ("echo first >&2; echo last line >&2; exit 3", "failed: last line$"),
        ("cat > /dev/null; echo not json; exit 3", "failed: exit code 3$"),
        ("cat > /dev/null; echo 3; echo null; echo '[]'; exit 3", "failed: exit code 3$"),
        (r"cat > /dev/null; printf '\377\n'; exit 3", "failed: exit code 3$"),
        (
            """cat > /dev/null; echo '{"error": {"kind": "MeasureError", "sentence": "said"}}'; echo '{}'""",
            "^said$",
        ),
    ],
)
def test_a_process_that_dies_is_one_sentence(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, sentence: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(MeasureError, match=sentence):
        measure_process(file)


def test_an_interrupted_measurement_leaves_no_process(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[str]] = []

    class Remembered(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(process.subprocess, "Popen", Remembered)
    # What Python 3.11 waits for a child after Ctrl-C; a child that ends may take longer.
    monkeypatch.setattr(Remembered, "_wait", slow_to_end(Remembered._wait))
    with pytest.raises(KeyboardInterrupt):
        measure_process(file, MeasureSpec(seconds=600.0), on_progress=interrupt)
    assert [child.returncode is not None for child in started] == [True]


def slow_to_end(wait: Any) -> Any:
    def patient(self: Any, timeout: float | None) -> Any:
        if timeout is not None:
            raise subprocess.TimeoutExpired("child", timeout)
        return wait(self, timeout=None)

    return patient


def test_what_another_library_prints_is_no_figure(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, in the middle and after; without an end of line too."""
    noise = """import atexit; print('{"figures": 1', end=''); atexit.register(print, '{}')"""
    (tmp_path / "sitecustomize.py").write_text(noise)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    plan = MeasureSpec(prompts=(), fills=(), apart=False, seconds=0.0, idle_seconds=0.0)
    assert measure_process(file, plan).load_ms > 0
