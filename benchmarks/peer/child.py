"""Run one engine in a process of its own and answer requests, one JSON line each. See process.py.

python -m peer.child prepare MODULE VARIANT FOLDER
python -m peer.child serve MODULE VARIANT FOLDER THREADS
"""

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from edgegpt.system import memory, peak_rss_bytes
from peer.engine import Peer


def serve(module: str, variant: str, folder: Path, threads: int) -> None:
    """Load the engine, send its import and load times, then answer requests until stdin ends."""
    answers = _take_stdout()
    start = perf_counter()
    engine = import_module(f"peer.{module}")
    imported = perf_counter()
    peer = engine.open_peer(folder, variant, threads)
    loaded = perf_counter()
    _send(answers, {"import_ms": 1e3 * (imported - start), "load_ms": 1e3 * (loaded - imported)})
    for line in sys.stdin:
        _send(answers, _answer(peer, json.loads(line)))


def _answer(peer: Peer, request: dict[str, Any]) -> dict[str, Any]:
    match request["do"]:
        case "burst":
            peer.burst(request["prompt"][:8], 4)  # warms caches and wakes threads; not timed
            marks, tokens = peer.burst(request["prompt"], request["n"])
            return {"ms": (1e3 * np.diff(marks)).tolist(), "tokens": tokens}
        case "logits":
            np.save(request["out"], peer.logits(request["ids"], request["at_once"]))
            return {}
        case "memory":
            return {name: size / 1e6 for name, size in _memory_bytes().items()}
        case other:
            raise ValueError(f"unknown request {other!r}")


def _memory_bytes() -> dict[str, int]:
    """Return the resident memory now, rss = private + mapped, and its peak so far; raises OSError."""
    now, peak = memory(), peak_rss_bytes()
    if now is None or peak is None:
        raise OSError("memory cannot be read: this needs Linux's /proc/self/smaps_rollup")
    return {
        "rss": now.rss_bytes,
        "private": now.private_bytes,
        "mapped": now.mapped_bytes,
        "peak": peak,
    }


def _take_stdout() -> int:
    """Return a descriptor of stdout for answers only; what libraries print goes to stderr."""
    answers = os.dup(1)
    os.dup2(2, 1)
    return answers


def _send(answers: int, message: dict[str, Any]) -> None:
    os.write(answers, json.dumps(message).encode() + b"\n")


def main() -> None:
    action, module, variant, folder, *threads = sys.argv[1:]
    if action == "prepare":
        import_module(f"peer.{module}").prepare(Path(folder), variant)
    else:
        serve(module, variant, Path(folder), int(threads[0]))


if __name__ == "__main__":
    main()
