"""What a measuring process says to the one that started it (edgegpt.measure.process).

A job comes on standard input; on standard output come {"progress"} lines and at last one {"figures"} or
{"error"}.
"""

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

from edgegpt.errors import EdgeGPTError, MeasureError

Progress = Callable[[float], None]  # called with the share that is done, 0 to 1
OnStep = Callable[[str], None]  # called with a short status message

_PR_SET_PDEATHSIG: Final = 1  # prctl(2)
_EVERY_SECONDS: Final = 0.5  # who reads of progress needs a core, maybe the one that is measured


def run_job(work: Callable[[dict[str, Any], Progress], Any]) -> int:
    """Do the job on standard input and return the exit code; the work's result goes through JSON."""
    job = json.load(sys.stdin)
    _end_with(job.pop("parent"))
    try:
        figures = work(job, _progress())
    except EdgeGPTError as e:
        _say("error", {"kind": type(e).__name__, "sentence": str(e)})
        return 1
    except MemoryError:
        sentence = f"there is not enough memory to load and measure {job['path']}"
        _say("error", {"kind": MeasureError.__name__, "sentence": sentence})
        return 1
    _say("figures", figures)
    return 0


def _end_with(parent: int) -> None:
    """End when the process that asked for the work ends, however that is: nobody is left to stop this one."""
    if sys.platform == "linux":  # a thread that watches would disturb what is measured
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit(1)


def _progress() -> Progress:
    """Says the first share, the last one and a few between."""
    said = float("-inf")

    def say(share: float) -> None:
        nonlocal said
        if share >= 1 or perf_counter() > said + _EVERY_SECONDS:
            said = perf_counter()
            _say("progress", share)

    return say


def _say(name: str, value: object) -> None:
    # On a line of its own, whatever another library has begun to print.
    print("\n" + json.dumps({name: value}), flush=True)
