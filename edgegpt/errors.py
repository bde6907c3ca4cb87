"""The errors that edgegpt raises on purpose.

Every message is one sentence that holds the offending value and the way out: the command line prints
it as it is, and a ROS node sends it back to its client.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import index
from typing import Any


class EdgeGPTError(Exception):
    """Base of all errors that edgegpt raises on purpose."""


class ConfigError(EdgeGPTError):
    """A configuration file or value is not valid."""


class CheckpointError(EdgeGPTError):
    """A checkpoint folder is missing, incomplete or disagrees with its config."""


class TokenizerError(EdgeGPTError):
    """A tokenizer file is not a byte-level BPE, or a text or token id cannot be converted."""


class ArtifactError(EdgeGPTError):
    """An ONNX file is missing, damaged, foreign, or of another format version."""


class PromptError(EdgeGPTError):
    """A prompt cannot be answered: it is empty or does not fit into the context."""


class SamplingError(EdgeGPTError):
    """A sampling parameter is outside its range."""


class EngineError(EdgeGPTError):
    """An option of the engine is outside its range, or onnxruntime failed."""


class CacheError(EdgeGPTError):
    """A KV cache is full, or is rewound to a position that it does not hold."""


class NonFiniteLogitsError(EdgeGPTError):
    """The model produced NaN or infinity; its weights or its input are broken."""


class SessionError(EdgeGPTError):
    """A session is in use, has changed, is larger than the limit, or cannot be rewound so far."""


class OverloadedError(EdgeGPTError):
    """A server has no place for another request now; the same request may succeed later."""


class PreemptedError(EdgeGPTError):
    """A newer request, or one of higher priority, replaced this one."""


class NotActiveError(EdgeGPTError):
    """A server accepts no requests, or was deactivated before this one had ended."""


class VerificationError(EdgeGPTError):
    """An ONNX file does not compute what the PyTorch model computes."""


class BudgetError(EdgeGPTError):
    """A model file does not keep its budget."""


class ImpossibleBudgetError(BudgetError):
    """No model keeps a budget; `facts` are JSON for machines: the limits, and the nearest models."""

    def __init__(self, message: str, facts: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.facts = facts


class DataError(EdgeGPTError):
    """A file of examples is missing, empty or malformed."""


class TrainingError(EdgeGPTError):
    """A training run cannot start, continue or save."""


class MeasureError(EdgeGPTError):
    """An option of a measurement is not valid, or its process failed."""


class MissingExtraError(EdgeGPTError):
    """A package that only a workstation needs is not installed."""


def whole_number(
    name: str, value: object, error: type[EdgeGPTError], *, least: int = 0, most: int | None = None
) -> int:
    """Return `value` as an int: a Python or numpy integer from `least` to `most`, and no bool.

    Raises:
        error: it is something else; the message holds `name` and the value.
    """
    try:
        number = index(value)  # type: ignore[arg-type]  # what has no __index__ raises TypeError
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least or (most is not None and number > most):
        wanted = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise error(f"{name} must be a whole number {wanted}, got {value!r}")
    return number


def first_line(error: BaseException) -> str:
    """Return the first line of an onnxruntime message, at most 120 characters of it."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return line if len(line) <= 120 else line[:117] + "..."


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Turn a failed import inside the block into the command that installs the extra."""
    try:
        yield
    except ModuleNotFoundError as e:
        raise MissingExtraError(
            f"this command needs the package {e.name!r}; install the extra [{extra}] of edgegpt-robot, "
            f"from its repository: pip install '.[{extra}]'"
        ) from e
