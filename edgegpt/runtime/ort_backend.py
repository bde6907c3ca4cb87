"""One onnxruntime session as a robot wants it; the only place where its options are set."""

import ctypes
import sys
from pathlib import Path
from typing import Final

import onnxruntime as ort

from edgegpt.errors import ArtifactError

# edgegpt/__init__.py keeps telemetry from starting; this ends what another import has started.
ort.disable_telemetry_events()

_SILENT: Final = 4  # onnxruntime's severity "fatal"; what went wrong is raised, not printed


def open_session(model: Path | bytes, threads: int = 1, *, spinning: bool = False) -> ort.InferenceSession:
    """A session on the CPU with all optimisations.

    Args:
        model: a file or the bytes of one.
        threads: for one call of the graph, the caller's own among them.
        spinning: whether threads that wait keep their cores busy, to be there at once.

    Raises what onnxruntime raises, which is of several kinds.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = _SILENT
    # A waiting thread sleeps; a spinning one would take a core from the robot's control loop.
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spinning else "0")
    session = ort.InferenceSession(
        model if isinstance(model, bytes) else str(model),
        options,
        providers=["CPUExecutionProvider"],
        enable_fallback=0,  # would print to stdout and try the same once more
    )
    return_free_memory()
    return session


def return_free_memory() -> None:
    """Give back to the system what reading a model leaves in the heap: 1.9 MB after rover, in 0.3 ms.

    Counting the tokens of a megabyte leaves 100 MB. Linux with glibc alone knows how (malloc_trim(3)).
    """
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


def check_file_name(path: Path) -> None:
    """Refuse a name that onnxruntime cannot take; raises ArtifactError."""
    try:
        str(path).encode()
    except UnicodeEncodeError as e:
        raise ArtifactError(
            f"{str(path)!a} is not UTF-8, and onnxruntime takes no other file names; rename it"
        ) from e
