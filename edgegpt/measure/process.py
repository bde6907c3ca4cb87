"""Start a process that measures one file, and hear what it found."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import edgegpt
from edgegpt import errors
from edgegpt.errors import EdgeGPTError, MeasureError, first_line
from edgegpt.measure.machine import this_machine
from edgegpt.measure.spec import MeasureSpec, ProcessResult, result_from_json
from edgegpt.measure.worker import Progress


def measure_process(
    path: str | Path, plan: MeasureSpec | None = None, *, on_progress: Progress | None = None
) -> ProcessResult:
    """What a fresh process measures of a file; it is the robot's process, so memory is the model's.

    Args:
        path: an .onnx file made by `edgegpt export`.
        plan: what to measure; None is all of Plan's defaults.
        on_progress: called with the share of the measuring time that has passed, from 0 to 1.

    Raises:
        MeasureError: the plan is not possible on this machine or with this model, or the process
            failed or was killed.
        ArtifactError, EngineError, NonFiniteLogitsError: as `edgegpt.load`.
    """
    plan = MeasureSpec() if plan is None else plan
    check_threads(plan.threads)
    job = {"path": str(path), "plan": asdict(plan)}
    return result_from_json(run_child("edgegpt.measure.child", job, on_progress=on_progress))


def run_child(module: str, job: dict[str, Any], *, on_progress: Progress | None = None) -> Any:
    """What a fresh process found, which runs a module that ends in `edgegpt.measure.worker.do`.

    Args:
        module: its name.
        job: for its standard input; `path` is the file it measures.
        on_progress: as of measure_process.

    Raises:
        MeasureError: the process failed or was killed. Errors of edgegpt's own that it met are raised here.
    """
    with tempfile.TemporaryFile() as stderr:  # a pipe would fill up and block when nobody reads
        command = [sys.executable, "-m", module]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=stderr,
            env=_environment(),
            encoding="utf-8",
            errors="replace",  # of what another library prints
        ) as child:
            try:
                assert child.stdin is not None
                assert child.stdout is not None
                message = _talk(
                    child.stdin, child.stdout, json.dumps({**job, "parent": os.getpid()}), on_progress
                )
            except BaseException:  # Ctrl-C, or on_progress failed
                child.kill()
                child.wait()  # leaving `with` waits a quarter of a second for Ctrl-C, and leaves a zombie
                raise
        code = child.returncode
        if "figures" in message:
            return message["figures"]
        if "error" in message:
            raise _error(message["error"])
        stderr.seek(0)
        raise MeasureError(_death(job["path"], code, stderr.read().decode("utf-8", "replace")))


def check_threads(threads: int) -> None:
    """Raise MeasureError where `threads` is not within 1 to the cores that this process may use."""
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise MeasureError(f"threads must be a whole number of at least 1, got {threads!r}")
    cores = this_machine().available_cores
    if threads > cores:
        raise MeasureError(
            f"threads must be at most {cores}, the cores that this process may use, got {threads}; threads "
            "that wait for each other's core measure nothing, give fewer (--threads on the command line)"
        )


def _environment() -> dict[str, str]:
    """Runs the code that runs here, wherever it lies, and no file of the current folder."""
    here = str(Path(edgegpt.__file__).parents[1])
    paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}


def _talk(stdin: IO[str], stdout: IO[str], job: str, on_progress: Progress | None) -> dict[str, Any]:
    """Hand over the job; the child's last word, or nothing if it died before."""
    try:
        stdin.write(job)
        stdin.close()
    except BrokenPipeError:  # it died at once
        return {}
    last: dict[str, Any] = {}
    for line in stdout:
        said = _said(line)
        if on_progress is not None and "progress" in said:
            on_progress(said["progress"])
        if "figures" in said or "error" in said:
            last = said
    return last


def _said(line: str) -> dict[str, Any]:
    """What a line of the child's says; nothing where it was cut, or printed by another library."""
    try:
        said = json.loads(line)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _error(error: dict[str, str]) -> EdgeGPTError:
    """The child's error as if it had been raised here."""
    kind = getattr(errors, error["kind"], MeasureError)
    result: EdgeGPTError = kind(error["sentence"])
    return result


def _death(path: str | Path, code: int, stderr: str) -> str:
    if code < 0:
        named = {number.value: number.name for number in signal.Signals}
        name = named.get(-code, f"signal {-code}")
        hint = "; the system may have run out of memory" if -code == signal.SIGKILL else ""
        return f"the process that measured {path} was ended by {name}{hint}"
    lines = stderr.strip().splitlines()
    cause = first_line(Exception(lines[-1])) if lines else f"exit code {code}"
    return f"the process that measured {path} failed: {cause}"
