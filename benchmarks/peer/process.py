"""Start, query and end the processes in which engines run (child.py)."""

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from peer.engine import Logits
from peer.roster import PeerSpec

_BENCHMARKS = Path(__file__).parents[1]
TIMEOUT = 600  # seconds to make an engine's files, or to answer one request


class PeerError(Exception):
    """A peer cannot be installed, prepared, loaded or run; the message is one sentence."""


def prepare(spec: PeerSpec, folder: Path) -> None:
    """Make the files that the engine reads; raises PeerError."""
    try:
        done = subprocess.run(
            _command("prepare", spec, folder),
            env=_environment(1),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired as e:
        raise PeerError(f"its files were not made within {TIMEOUT} s") from e
    if done.returncode:
        raise PeerError(_cause(done.stderr.decode(errors="replace"), done.returncode))


class Child:
    """A process with a loaded engine; its stderr is kept to report why it failed."""

    def __init__(self, spec: PeerSpec, folder: Path, threads: int) -> None:
        """Start the process and wait until the model is loaded; raises PeerError."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [*_command("serve", spec, folder), str(threads)],
            env=_environment(threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        try:
            self.start: dict[str, float] = self._receive()
        except PeerError:
            self.close()
            raise

    def burst(self, prompt: Sequence[int], n: int) -> tuple[list[float], list[int]]:
        """Decode n tokens; return the milliseconds of each, the prefill in the first, and the tokens."""
        answer = self._ask({"do": "burst", "prompt": list(prompt), "n": n})
        return answer["ms"], answer["tokens"]

    def logits(self, ids: Sequence[int], at_once: int) -> Logits:
        """Return the logits that `Peer.logits` returns."""
        with tempfile.TemporaryDirectory() as folder:
            out = f"{folder}/logits.npy"
            self._ask({"do": "logits", "ids": list(ids), "at_once": at_once, "out": out})
            logits: Logits = np.load(out)
            return logits

    def memory(self) -> dict[str, float]:
        """Return the child's resident megabytes (1e6 bytes): rss = private + mapped, and peak."""
        return self._ask({"do": "memory"})

    def close(self) -> None:
        """End the process, by a kill if it does not end within 10 s."""
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()
        self._errors.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        with contextlib.suppress(BrokenPipeError):  # _receive reports the cause
            print(json.dumps(request), file=self._requests, flush=True)
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        # Each request has one line as its answer, so no further line is in the buffer.
        if not select.select([self._answers], [], [], TIMEOUT)[0]:
            self._process.kill()
            raise PeerError(f"no answer within {TIMEOUT} s")
        line = self._answers.readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        code = self._process.wait()
        self._errors.seek(0)
        raise PeerError(_cause(self._errors.read().decode(errors="replace"), code))


def _command(action: str, spec: PeerSpec, folder: Path) -> list[str]:
    return [sys.executable, "-m", "peer.child", action, spec.module, spec.variant, str(folder)]


def _environment(threads: int) -> dict[str, str]:
    """Return the variables of a child."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(_BENCHMARKS), os.environ.get("PYTHONPATH")])),
        "OMP_NUM_THREADS": str(threads),  # torch, CTranslate2 and llama.cpp: not all threads have an option
        "HF_HUB_OFFLINE": "1",
    }


def _cause(stderr: str, code: int) -> str:
    """Return the last line of stderr that is not empty, or the exit code."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return lines[-1][:300] if lines else f"its process ended with {code} and no message"
