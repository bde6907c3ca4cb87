"""The parent's side of peer/child.py: start it, ask it, end it."""

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
from peer.roster import Row

_BENCHMARKS = Path(__file__).parents[1]
PATIENCE = 600  # seconds, for files to be made or for one answer


class PeerError(Exception):
    """A peer cannot be installed, prepared, loaded or run; the message is one sentence."""


def prepare(row: Row, folder: Path) -> None:
    """Make the files that a row's engine reads; raises PeerError."""
    try:
        done = subprocess.run(
            _command("prepare", row, folder),
            env=_environment(1),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired as e:
        raise PeerError(f"its files were not made within {PATIENCE} s") from e
    if done.returncode:
        raise PeerError(_cause(done.stderr.decode(errors="replace"), done.returncode))


class Child:
    """A running engine. What it writes to stderr is kept for its last words."""

    def __init__(self, row: Row, folder: Path, threads: int) -> None:
        """Start it and wait until its model is loaded; raises PeerError."""
        self.row = row
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [*_command("serve", row, folder), str(threads)],
            env=_environment(threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        try:
            self.start: dict[str, float] = self._receive()
        except PeerError:
            self.close()
            raise

    def burst(self, prompt: Sequence[int], n: int) -> tuple[list[float], list[int]]:
        """Milliseconds to each of n tokens, the first with the prompt's reading, and the tokens."""
        answer = self._ask({"do": "burst", "prompt": list(prompt), "n": n})
        return answer["ms"], answer["tokens"]

    def logits(self, ids: Sequence[int], at_once: int) -> Logits:
        """As `Peer.logits`."""
        with tempfile.TemporaryDirectory() as folder:
            out = f"{folder}/logits.npy"
            self._ask({"do": "logits", "ids": list(ids), "at_once": at_once, "out": out})
            logits: Logits = np.load(out)
            return logits

    def memory(self) -> dict[str, float]:
        """Resident megabytes (1e6 bytes) of the child: rss = private + mapped, and the peak of rss."""
        return self._ask({"do": "memory"})

    def close(self) -> None:
        """End the process, also when it hangs."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()  # type: ignore[union-attr]
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()  # type: ignore[union-attr]
        self._errors.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        with contextlib.suppress(BrokenPipeError):  # _receive says why
            print(json.dumps(request), file=self._process.stdin, flush=True)
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        # One line answers one request, so nothing else waits in a buffer.
        if not select.select([self._process.stdout], [], [], PATIENCE)[0]:
            self._process.kill()
            raise PeerError(f"no answer within {PATIENCE} s")
        line = self._process.stdout.readline()  # type: ignore[union-attr]
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        code = self._process.wait()
        self._errors.seek(0)
        raise PeerError(_cause(self._errors.read().decode(errors="replace"), code))


def _command(action: str, row: Row, folder: Path) -> list[str]:
    return [sys.executable, "-m", "peer.child", action, row.module, row.variant, str(folder)]


def _environment(threads: int) -> dict[str, str]:
    """OMP_NUM_THREADS rules torch, CTranslate2 and llama.cpp where their own settings leave a gap."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(_BENCHMARKS), os.environ.get("PYTHONPATH")])),
        "OMP_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
    }


def _cause(stderr: str, code: int) -> str:
    """The last line that says something, or how the process ended."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return lines[-1][:300] if lines else f"its process ended with {code} and said nothing"
