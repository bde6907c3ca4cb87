"""Start a process that measures one file, and read its results."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, TypeVar

import edgegpt
from edgegpt import errors
from edgegpt.errors import EdgeGPTError, MeasureError, first_line, whole_number
from edgegpt.measure import MeasureSpec, ProcessResult, Progress, this_machine

Result = TypeVar("Result")


def measure_process(
    path: str | Path, spec: MeasureSpec | None = None, *, on_progress: Progress | None = None
) -> ProcessResult:
    """Measure a file in a fresh process that loads what the robot's process loads and no more.

    Args:
        path: an .onnx file made by `edgegpt export`.
        spec: what to measure; None is all of MeasureSpec's defaults.
        on_progress: called with the share of the measuring time that has passed, from 0 to 1.

    Raises:
        MeasureError: the spec is not possible on this machine or with this model, or the process
            failed or was killed.
        ArtifactError, EngineError, NonFiniteLogitsError: as `edgegpt.load`.
    """
    spec = MeasureSpec() if spec is None else spec
    check_threads(spec.threads)
    job = {"path": str(path), "spec": asdict(spec)}
    return run_child("edgegpt.measure.child", job, ProcessResult, on_progress=on_progress)


def run_child(
    module: str, job: dict[str, Any], result: type[Result], *, on_progress: Progress | None = None
) -> Result:
    """Run a module that ends in `edgegpt.measure.worker.run_job` as a fresh process; return its result.

    Args:
        module: name of the module.
        job: sent to its standard input; `path` is the file it measures.
        result: the dataclass that it sends back.
        on_progress: as in `measure_process`.

    Raises:
        MeasureError: the process failed or was killed. An error of edgegpt's own is raised as it is.
    """
    from pydantic import TypeAdapter  # heavy, and needed only where a child is started

    with tempfile.TemporaryFile() as stderr:  # a pipe that is not read would fill up and block
        command = [sys.executable, "-m", module]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=stderr,
            env=_environment(),
            encoding="utf-8",
            errors="replace",  # another library may print anything
        ) as child:
            try:
                assert child.stdin is not None
                assert child.stdout is not None
                text = json.dumps({**job, "parent": os.getpid()})
                message = _exchange(child.stdin, child.stdout, text, on_progress)
            except BaseException:  # Ctrl-C, or on_progress failed
                child.kill()
                child.wait()  # leaving `with` waits a quarter of a second for Ctrl-C, and leaves a zombie
                raise
        code = child.returncode
        if "figures" in message:
            return TypeAdapter(result).validate_python(message["figures"])
        if "error" in message:
            raise _error(message["error"])
        stderr.seek(0)
        raise MeasureError(_death(job["path"], code, stderr.read().decode("utf-8", "replace")))


def check_threads(threads: int) -> None:
    """Raise MeasureError where `threads` is not within 1 to the cores that this process may use."""
    whole_number("threads", threads, MeasureError, least=1)
    cores = this_machine().available_cores
    if threads > cores:
        raise MeasureError(
            f"threads must be at most {cores}, the cores that this process may use, got {threads}; threads "
            "that share a core distort the times, give fewer (--threads on the command line)"
        )


def _environment() -> dict[str, str]:
    """Return an environment in which the child imports this same code, and nothing of the current folder."""
    here = str(Path(edgegpt.__file__).parents[1])
    paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}


def _exchange(stdin: IO[str], stdout: IO[str], job: str, on_progress: Progress | None) -> dict[str, Any]:
    """Send the job and return the child's last message, or an empty one if it died before."""
    try:
        stdin.write(job)
        stdin.close()
    except BrokenPipeError:  # it died at once
        return {}
    last: dict[str, Any] = {}
    for line in stdout:
        message = _parse(line)
        if on_progress is not None and "progress" in message:
            on_progress(message["progress"])
        if "figures" in message or "error" in message:
            last = message
    return last


def _parse(line: str) -> dict[str, Any]:
    """Return the message in a line; an empty one where it was cut, or printed by another library."""
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _error(error: dict[str, str]) -> EdgeGPTError:
    """Return the child's error as if it had been raised here."""
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
