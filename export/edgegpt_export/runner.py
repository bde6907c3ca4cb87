"""Feed tokens through a session as a robot does, with a growing cache or a fixed buffer; compare logits.

Shapes: B batch, T new tokens, P cached tokens, L positions, V vocab_size.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edgegpt.config import ModelConfig
from edgegpt.contract import INPUT_IDS, LOGITS, POSITION_IDS, past_names, present_names
from edgegpt.errors import VerificationError, first_line
from edgegpt.runtime import ParityRow, kl

Ids = NDArray[np.int64]
Logits = NDArray[np.float32]

# Fills the rows of a buffer that must not be read: about the largest value of the type.
POISON: Final = {"float32": 1e30, "int8": 127}
_POSITIONS: Final = 64  # compared at once, so that memory does not grow with L
_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "tensor(float)": np.dtype(np.float32),
    "tensor(int8)": np.dtype(np.int8),
}


class GrowingCache:
    """A cache that feeds each call's present as the next call's past, starting empty."""

    def __init__(self, session: ort.InferenceSession, config: ModelConfig, batch: int) -> None:
        self._session = session
        self._length = 0
        layers = range(config.n_layer)
        self._past_names = [name for i in layers for name in past_names(i)]
        self._outputs = [LOGITS, *(name for i in layers for name in present_names(i))]
        shape = (batch, config.n_kv_head, 0, config.head_dim)
        self._past: list[NDArray[Any]] = [np.zeros(shape, _dtype(session)) for _ in self._past_names]

    def feed(self, ids: Ids) -> Logits:
        """Run the next tokens (B, T) -> their logits (B, T, V)."""
        inputs = dict(zip(self._past_names, self._past, strict=True))
        inputs.update({INPUT_IDS: ids, POSITION_IDS: _positions(ids, self._length)})
        logits: Logits
        with _running(ids, self._length):
            logits, *self._past = self._session.run(self._outputs, inputs)
        self._length += ids.shape[1]
        return logits


class SharedCache:
    """One buffer for each cache tensor, bound as past and as present, its unused rows full of POISON."""

    def __init__(self, session: ort.InferenceSession, config: ModelConfig, batch: int, capacity: int) -> None:
        self._session = session
        self._vocab_size = config.vocab_size
        self._length = 0
        self._binding = session.io_binding()
        shape = (batch, config.n_kv_head, capacity, config.head_dim)
        dtype = _dtype(session)
        self._buffers = []  # a binding does not keep them alive
        for i in range(config.n_layer):
            for past, present in zip(past_names(i), present_names(i), strict=True):
                buffer = ort.OrtValue.ortvalue_from_numpy(np.full(shape, POISON[dtype.name], dtype))
                self._binding.bind_ortvalue_input(past, buffer)
                self._binding.bind_ortvalue_output(present, buffer)
                self._buffers.append(buffer)

    def feed(self, ids: Ids) -> Logits:
        """Run the next tokens (B, T) -> their logits (B, T, V); at most `capacity` tokens in total."""
        ids = np.ascontiguousarray(ids)
        logits = np.empty((*ids.shape, self._vocab_size), np.float32)
        values = {
            INPUT_IDS: ort.OrtValue.ortvalue_from_numpy(ids),
            POSITION_IDS: ort.OrtValue.ortvalue_from_numpy(_positions(ids, self._length)),
            LOGITS: ort.OrtValue.ortvalue_from_numpy(logits),
        }
        self._binding.bind_ortvalue_input(INPUT_IDS, values[INPUT_IDS])
        self._binding.bind_ortvalue_input(POSITION_IDS, values[POSITION_IDS])
        self._binding.bind_ortvalue_output(LOGITS, values[LOGITS])
        with _running(ids, self._length):
            self._session.run_with_iobinding(self._binding)
        self._length += ids.shape[1]
        return logits


def _dtype(session: ort.InferenceSession) -> np.dtype[Any]:
    """Return the type of the numbers in the cache."""
    types = {value.name: value.type for value in session.get_inputs()}
    return _DTYPES[types[past_names(0)[0]]]


@contextmanager
def _running(ids: Ids, start: int) -> Iterator[None]:
    try:
        yield
    except Exception as e:  # onnxruntime raises several kinds, some of them private
        batch, new = ids.shape
        raise VerificationError(
            f"the graph does not run on {new} tokens after {start} (batch {batch}): {first_line(e)}"
        ) from e


def _positions(ids: Ids, start: int) -> Ids:
    batch, new = ids.shape
    return np.ascontiguousarray(np.broadcast_to(np.arange(start, start + new), (batch, new)))


def compare(reference: Logits, logits: Logits, tie: float) -> ParityRow:
    """Compare PyTorch's logits (L, V) with the file's; tokens within `tie` in `reference` count as equal."""
    total, agreed = 0.0, 0
    for expected, got in _parts(reference, logits):
        total += float(kl(expected, got).sum())
        at_its_choice = expected[np.arange(len(expected)), got.argmax(-1)]
        agreed += int((expected.max(-1) - at_its_choice <= tie).sum())
    length = len(reference)
    return ParityRow(length, max_abs(reference, logits), total / length, agreed / length)


def max_abs(a: Logits, b: Logits) -> float:
    """Return the largest difference between two arrays (L, V): NaN if either holds one, 0 if L is 0."""
    return float(np.max([0.0, *(np.abs(x - y).max() for x, y in _parts(a, b))]))  # np.max keeps NaN


def worst_kl(reference: Logits, logits: Logits) -> float:
    """Return the largest KL(reference || logits) of a position, in nats; NaN is kept, 0 if L is 0."""
    return float(np.max([0.0, *(kl(x, y).max() for x, y in _parts(reference, logits))]))


def mean_kl(reference: Sequence[Logits], logits: Sequence[Logits]) -> float:
    """Return the mean of KL(reference || logits) over all positions of all pairs, in nats."""
    pairs = [pair for a, b in zip(reference, logits, strict=True) for pair in _parts(a, b)]
    return float(np.concatenate([kl(*pair) for pair in pairs]).mean())


def _parts(a: Logits, b: Logits) -> Iterator[tuple[Logits, Logits]]:
    if a.shape != b.shape:
        raise ValueError(f"logits of the shapes {a.shape} and {b.shape} cannot be compared")
    for start in range(0, len(a), _POSITIONS):
        yield a[start : start + _POSITIONS], b[start : start + _POSITIONS]
