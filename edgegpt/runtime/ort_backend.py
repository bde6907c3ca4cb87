"""One onnxruntime session as a robot wants it; the only place where its options are set.

One call of the graph over plain buffers.

A step reads token ids and positions and writes logits, keys and values, all in arrays that its
maker gave it once. The caller changes what is in the arrays and calls the step again; whoever has a
faster way to run one step can put it in this place. Shapes: T new tokens, R of them whose logits are
wanted, the last ones, V vocab_size.
"""

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edgegpt import contract
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


BoundCall = Callable[[], None]


def bind_shared_kv(
    session: ort.InferenceSession,
    input_ids: NDArray[np.int64],
    position_ids: NDArray[np.int64],
    logits: NDArray[np.float32],
    kv_arrays: Sequence[NDArray[Any]],
) -> BoundCall:
    """A step of the engine target: past and present are one buffer, bound once, nothing is copied.

    Args:
        session: of an engine-target file.
        input_ids: (1, T).
        position_ids: (1, T), absolute.
        logits: (1, R, V), written.
        kv_arrays: keys and values of each layer, (1, n_kv_head, capacity, head_dim), written in place.
    """
    start = _logits_start(input_ids.shape[1] - logits.shape[1])
    binding = session.io_binding()
    binding.bind_ortvalue_input(contract.INPUT_IDS, _alias(input_ids))
    binding.bind_ortvalue_input(contract.POSITION_IDS, _alias(position_ids))
    binding.bind_ortvalue_input(contract.LOGITS_START, _alias(start))
    binding.bind_ortvalue_output(contract.LOGITS, _alias(logits))
    past, present = _cache_names(len(kv_arrays) // 2)
    for past_name, present_name, array in zip(past, present, kv_arrays, strict=True):
        value = _alias(array)
        binding.bind_ortvalue_input(past_name, value)
        binding.bind_ortvalue_output(present_name, value)
    run = session.run_with_iobinding

    def step() -> None:
        run(binding)

    return step


def bind_copied_kv(
    session: ort.InferenceSession,
    input_ids: NDArray[np.int64],
    position_ids: NDArray[np.int64],
    logits: NDArray[np.float32],
    kv_arrays: Sequence[NDArray[Any]],
) -> BoundCall:
    """The same for the portable target, which takes the used positions and returns them and the new."""
    past, present = _cache_names(len(kv_arrays) // 2)
    outputs = [contract.LOGITS, *present]

    def step() -> None:
        start, end = int(position_ids[0, 0]), int(position_ids[0, -1]) + 1
        feeds: dict[str, Any] = {contract.INPUT_IDS: input_ids, contract.POSITION_IDS: position_ids}
        for name, array in zip(past, kv_arrays, strict=True):
            feeds[name] = np.ascontiguousarray(array[:, :, :start])
        results: list[Any] = session.run(outputs, feeds)
        logits[:] = results[0][:, -logits.shape[1] :]
        for array, new in zip(kv_arrays, results[1:], strict=True):
            array[:, :, start:end] = new[:, :, start:end]

    return step


@cache
def _logits_start(row: int) -> NDArray[np.int64]:
    """Kept for good, since a binding does not keep what it points to."""
    return np.array([row], np.int64)


def _alias(array: NDArray[Any]) -> ort.OrtValue:
    """An OrtValue over the array's own memory, not a copy."""
    return ort.OrtValue.ortvalue_from_numpy(array)


def _cache_names(n_layer: int) -> tuple[list[str], list[str]]:
    past = [name for layer in range(n_layer) for name in contract.past_names(layer)]
    present = [name for layer in range(n_layer) for name in contract.present_names(layer)]
    return past, present
