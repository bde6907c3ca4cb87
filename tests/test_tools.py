"""tools/step runs a step quietly; tools/run-tests runs pytest twice."""

import os
import pty
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[1] / "tools"


def step(tmp_path: Path, script: str) -> "subprocess.CompletedProcess[str]":
    command = [str(TOOLS / "step"), str(tmp_path / "logs" / "a.log"), "Working", "sh", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_step_that_works_is_one_line_and_its_output_is_in_the_log(tmp_path: Path) -> None:
    done = step(tmp_path, "echo one; echo two >&2")
    assert (done.returncode, done.stdout) == (0, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Working")
    assert (tmp_path / "logs" / "a.log").read_text() == "one\ntwo\n"


def test_a_step_that_fails_keeps_its_exit_code_and_shows_the_end_of_its_log(tmp_path: Path) -> None:
    done = step(tmp_path, "seq 1000; exit 7")
    assert done.returncode == 7
    words = re.findall(r"[\w/.-]+", done.stderr)
    assert {"7", "981", "1000", str(tmp_path / "logs" / "a.log")} <= set(words)
    assert "980" not in words


def test_a_step_on_a_terminal_counts_seconds_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [str(TOOLS / "step"), str(tmp_path / "a.log"), "Working", "sleep", "60"]
    with subprocess.Popen(command, stderr=theirs, start_new_session=True) as running:
        os.close(theirs)
        shown = b""
        while b"1 s" not in shown:
            shown += os.read(ours, 1000)
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does to every process of the job
        began = time.monotonic()
        assert running.wait(30) == 130
    assert time.monotonic() - began < 20
    os.close(ours)


STUB = """#!/bin/sh
printf '%s\\n' "$@" --- >> "$CALLS"
case "$*" in *"not alone"*) exit "$SHARED" ;; *) exit "$ALONE" ;; esac
"""


def run_tests(
    tmp_path: Path, *arguments: str, shared: int = 0, alone: int = 0
) -> tuple[int, list[list[str]]]:
    """Return the exit code of tools/run-tests and the arguments of each run of a pytest that is a stub."""
    stub, calls = tmp_path / "pytest", tmp_path / "calls"
    stub.write_text(STUB)
    stub.chmod(0o755)
    env = {**os.environ, "CALLS": str(calls), "SHARED": str(shared), "ALONE": str(alone)}
    code = subprocess.run([TOOLS / "run-tests", stub, *arguments], env=env, timeout=60).returncode
    runs = calls.read_text().removesuffix("---\n").split("---\n")
    return code, [run.splitlines() for run in runs]


@pytest.mark.parametrize("marks", [("-m", "not slow"), ("-mnot slow",)])
def test_arguments_go_to_both_runs_and_a_marker_expression_is_joined(
    tmp_path: Path, marks: tuple[str, ...]
) -> None:
    code, (shared, alone) = run_tests(tmp_path, *marks, "-k", "two words", "tests/test_a.py")
    assert code == 0
    assert shared[-5:] == ["-m", "(not slow) and not alone", "-k", "two words", "tests/test_a.py"]
    assert alone == ["-m", "(not slow) and alone", "-k", "two words", "tests/test_a.py"]


@pytest.mark.parametrize(
    ("shared", "alone", "code"),
    [(0, 0, 0), (0, 5, 0), (5, 0, 0), (5, 5, 5), (1, 0, 1), (0, 1, 1), (1, 5, 1), (5, 1, 1)],
)
def test_a_run_that_collects_nothing_fails_only_if_the_other_does_too(
    tmp_path: Path, shared: int, alone: int, code: int
) -> None:
    assert run_tests(tmp_path, shared=shared, alone=alone)[0] == code


def test_an_interrupted_run_is_the_last(tmp_path: Path) -> None:
    code, runs = run_tests(tmp_path, shared=2)
    assert (code, len(runs)) == (2, 1)
