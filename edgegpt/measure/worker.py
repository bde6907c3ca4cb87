"""Worker's side of the measuring protocol; the parent's side is edgegpt.measure.process.

A job comes on standard input as JSON. On standard output come lines of JSON: any number of {"progress"} and
at last one {"figures"} or {"error"}.
"""

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from edgegpt.errors import EdgeGPTError, MeasureError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Progress = Callable[[float], None]  # called with the share that is done, 0 to 1
OnStep = Callable[[str], None]  # called with a short status message

_PR_SET_PDEATHSIG: Final = 1  # prctl(2)
_PROGRESS_SECONDS: Final = 0.5  # between messages: their reader may compete for the measured core
_POLL_SECONDS: Final = 1.0


def run_job(work: "Callable[[dict[str, Any], Progress], DataclassInstance]") -> int:
    """Do the job on standard input, send the dataclass that `work` returns, and return the exit code."""
    job = json.load(sys.stdin)
    end_with_parent(job.pop("parent"))
    try:
        figures = work(job, _progress())
    except EdgeGPTError as e:
        _send("error", {"kind": type(e).__name__, "sentence": str(e)})
        return 1
    except MemoryError:
        sentence = f"there is not enough memory to load and measure {job['path']}"
        _send("error", {"kind": MeasureError.__name__, "sentence": sentence})
        return 1
    _send("figures", asdict(figures))
    return 0


def end_with_parent(parent: int) -> None:
    """End this process as soon as the process `parent`, which started it, has ended for any reason.

    On Linux the kernel does it, since a watching thread would disturb the measurement.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before
            os._exit(1)
        return

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_SECONDS)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _progress() -> Progress:
    """Return a callback that sends the first share, the last one and a few between."""
    sent = float("-inf")

    def send(share: float) -> None:
        nonlocal sent
        if share >= 1 or time.perf_counter() > sent + _PROGRESS_SECONDS:
            sent = time.perf_counter()
            _send("progress", share)

    return send


def _send(name: str, value: object) -> None:
    # On a line of its own, whatever another library has begun to print.
    print("\n" + json.dumps({name: value}), flush=True)
