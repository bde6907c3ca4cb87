"""What a measuring process says to the one that started it (edgegpt.measure.process).

A job comes on standard input; on standard output come {"progress"} lines and at last one {"figures"} or
{"error"}.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from edgegpt.errors import EdgeGPTError, MeasureError

Progress = Callable[[float], None]


def do(work: Callable[[dict[str, Any], Progress], Any]) -> int:
    """Do the job on standard input and return the exit code; the work's result goes through JSON."""
    job = json.load(sys.stdin)
    try:
        figures = work(job, lambda share: _say("progress", share))
    except EdgeGPTError as e:
        _say("error", {"kind": type(e).__name__, "sentence": str(e)})
        return 1
    except MemoryError:
        sentence = f"there is not enough memory to load and measure {job['path']}"
        _say("error", {"kind": MeasureError.__name__, "sentence": sentence})
        return 1
    _say("figures", figures)
    return 0


def _say(name: str, value: object) -> None:
    print(json.dumps({name: value}), flush=True)
