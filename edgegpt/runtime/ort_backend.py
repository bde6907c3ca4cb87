"""The onnxruntime backend: sessions with the options of a robot, and calls bound to arrays.

Session options are set here and nowhere else. Another backend implements `Backend`.
"""

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edgegpt import contract
from edgegpt.errors import ArtifactError

# edgegpt/__init__.py keeps telemetry from starting; this ends what another import has started.
ort.disable_telemetry_events()

_SILENT: Final = 4  # onnxruntime's severity "fatal"; errors are raised, not printed

BoundCall = Callable[[], None]
"""Runs the graph once over the arrays it was bound to."""


class CallArrays(NamedTuple):
    """The arrays of a call, for T new tokens, of which the last R are to have logits; V is vocab_size.

    Attributes:
        input_ids: (1, T).
        position_ids: (1, T), absolute.
        logits: (1, R, V), written.
        kv: keys and values of each layer, (1, n_kv_head, capacity, head_dim); the rows of the new tokens
            are written.
    """

    input_ids: NDArray[np.int64]
    position_ids: NDArray[np.int64]
    logits: NDArray[np.float32]
    kv: Sequence[NDArray[Any]]


class Backend(Protocol):
    """Binds calls of a model to arrays: bound once, a call only runs.

    A call reads token ids and positions and writes logits, keys and values; the caller changes the arrays'
    content and calls again.
    """

    @property
    def prefills_apart(self) -> bool:
        """True if prompts run on a session of their own, whose latency differs from that of decode steps."""

    def bind_prefill(self, arrays: CallArrays) -> BoundCall:
        """Return a call that reads a chunk of a prompt."""

    def bind_decode(self, arrays: CallArrays) -> BoundCall:
        """Return a call that reads one token, T = R = 1."""


class OrtBackend:
    """Runs a graph that follows `edgegpt.contract`.

    Attributes:
        session: session for decode steps.
        prefill_session: session for prompts; `session` unless given.
    """

    def __init__(
        self,
        session: ort.InferenceSession,
        *,
        target: str = contract.ENGINE,
        prefill_session: ort.InferenceSession | None = None,
    ) -> None:
        self.session = session
        self.prefill_session = session if prefill_session is None else prefill_session
        self._bind = bind_shared_kv if target == contract.ENGINE else bind_copied_kv

    @property
    def prefills_apart(self) -> bool:
        """True if prompts run on a second session."""
        return self.prefill_session is not self.session

    def bind_prefill(self, arrays: CallArrays) -> BoundCall:
        """Return a call that reads a chunk of a prompt."""
        return self._bind(self.prefill_session, arrays)

    def bind_decode(self, arrays: CallArrays) -> BoundCall:
        """Return a call that reads one token."""
        return self._bind(self.session, arrays)


def bind_shared_kv(session: ort.InferenceSession, arrays: CallArrays) -> BoundCall:
    """Bind a call of the engine target: past and present are one buffer, nothing is copied."""
    input_ids, position_ids, logits, kv = arrays
    start = _logits_start(input_ids.shape[1] - logits.shape[1])
    binding = session.io_binding()
    binding.bind_ortvalue_input(contract.INPUT_IDS, _alias(input_ids))
    binding.bind_ortvalue_input(contract.POSITION_IDS, _alias(position_ids))
    binding.bind_ortvalue_input(contract.LOGITS_START, _alias(start))
    binding.bind_ortvalue_output(contract.LOGITS, _alias(logits))
    past, present = _cache_names(len(kv) // 2)
    for past_name, present_name, array in zip(past, present, kv, strict=True):
        value = _alias(array)
        binding.bind_ortvalue_input(past_name, value)
        binding.bind_ortvalue_output(present_name, value)
    run = session.run_with_iobinding

    def call() -> None:
        run(binding)

    return call


def bind_copied_kv(session: ort.InferenceSession, arrays: CallArrays) -> BoundCall:
    """Bind a call of the portable target, which copies the used positions in and all of them out."""
    input_ids, position_ids, logits, kv = arrays
    past, present = _cache_names(len(kv) // 2)
    outputs = [contract.LOGITS, *present]

    def call() -> None:
        start, end = int(position_ids[0, 0]), int(position_ids[0, -1]) + 1
        feeds: dict[str, Any] = {contract.INPUT_IDS: input_ids, contract.POSITION_IDS: position_ids}
        for name, array in zip(past, kv, strict=True):
            feeds[name] = np.ascontiguousarray(array[:, :, :start])
        results: list[Any] = session.run(outputs, feeds)
        logits[:] = results[0][:, -logits.shape[1] :]
        for array, new in zip(kv, results[1:], strict=True):
            array[:, :, start:end] = new[:, :, start:end]

    return call


def open_session(model: Path | bytes, threads: int = 1, *, spinning: bool = False) -> ort.InferenceSession:
    """Open a session on the CPU with all optimisations.

    Args:
        model: an .onnx file or its bytes.
        threads: number of threads that run one call, the caller's included.
        spinning: whether waiting threads keep their cores busy, which saves the time to wake them.

    Raises:
        Exception: of the several kinds that onnxruntime raises.
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
    """Return freed heap memory to the system by malloc_trim(3), which only glibc on Linux has.

    Loading rover leaves 1.9 MB (0.3 ms to return), counting the tokens of a megabyte 100 MB.
    """
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


def check_file_name(path: Path) -> None:
    """Raise ArtifactError for a name that is not UTF-8, which onnxruntime cannot open."""
    try:
        str(path).encode()
    except UnicodeEncodeError as e:
        raise ArtifactError(
            f"{str(path)!a} is not UTF-8, and onnxruntime takes no other file names; rename it"
        ) from e


@cache
def _logits_start(row: int) -> NDArray[np.int64]:
    """Return an array that is never freed, since a binding does not keep what it points to."""
    return np.array([row], np.int64)


def _alias(array: NDArray[Any]) -> ort.OrtValue:
    """Return an OrtValue over the array's own memory, not a copy."""
    return ort.OrtValue.ortvalue_from_numpy(array)


def _cache_names(n_layer: int) -> tuple[list[str], list[str]]:
    past = [name for layer in range(n_layer) for name in contract.past_names(layer)]
    present = [name for layer in range(n_layer) for name in contract.present_names(layer)]
    return past, present
