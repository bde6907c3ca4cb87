"""Convert between ROS messages and edgegpt's values. No node and no topics here."""

from dataclasses import fields, replace
from typing import Any, Final

from edgegpt_msgs.msg import ErrorCode, GenerationOptions, GenerationStats

from edgegpt.errors import (
    EdgeGPTError,
    NotActiveError,
    OverloadedError,
    PreemptedError,
    PromptError,
    SamplingError,
    SessionError,
    TokenizerError,
)
from edgegpt.runtime import Reply, SamplingParams, Timing, Usage
from edgegpt.serving import Outcome

_CODES: Final[dict[type[EdgeGPTError], int]] = {
    NotActiveError: ErrorCode.NOT_ACTIVE,
    OverloadedError: ErrorCode.REJECTED,
    PreemptedError: ErrorCode.PREEMPTED,
    PromptError: ErrorCode.INVALID_REQUEST,
    SamplingError: ErrorCode.INVALID_REQUEST,
    SessionError: ErrorCode.INVALID_REQUEST,
    TokenizerError: ErrorCode.INVALID_REQUEST,
}


def fill(message: Any, outcome: Outcome) -> Any:
    """Fill a result of Generate or a response of Complete, and return it."""
    reply, error = outcome.reply, outcome.error
    message.text = ros_text(reply.text)
    message.finish_reason = reply.finish_reason
    message.error_code = code_of(error)
    message.error = "" if error is None else ros_text(str(error))
    message.stats = _stats(reply.usage, reply.timing)
    return message


def refused(error: EdgeGPTError) -> Outcome:
    """Return the outcome of a request that the server has never accepted."""
    reply = Reply("", "error", Usage(0, 0, 0), Timing(0, 0, 0, 0, 0, 0, 0, 0), ())
    return Outcome(reply, error.with_traceback(None))  # a traceback would keep the request's memory


def code_of(error: EdgeGPTError | None) -> int:
    """Return the ErrorCode of an error, OK for None."""
    default = ErrorCode.OK if error is None else ErrorCode.ENGINE
    code: int = next((code for kind, code in _CODES.items() if isinstance(error, kind)), default)
    return code


def params_of(options: Any, own: SamplingParams) -> SamplingParams:
    """Return `own` with the options that a request has set.

    Args:
        options: a GenerationOptions, or the node's parameters, which have the same names and meaning.
        own: the values that -1 and an empty `stop` refer to.

    Raises:
        SamplingError: a value is outside its range.
    """
    changes: dict[str, Any] = {}
    for field in fields(SamplingParams):
        value = getattr(options, field.name)
        if field.name == "stop":
            if len(value):
                changes["stop"] = () if list(value) == [""] else tuple(value)
        elif value != -1:
            changes[field.name] = value
    if changes.get("seed") == GenerationOptions.SEED_FRESH:
        changes["seed"] = None
    if changes.get("deadline_ms") == 0:
        changes["deadline_ms"] = None
    return replace(own, **changes)


def options_of(params: SamplingParams, *, stream: bool) -> GenerationOptions:
    """Return the options of a node, without any -1 and with explicit values for what is off."""
    options = GenerationOptions(stream=int(stream))
    for field in fields(params):
        if field.name not in ("seed", "stop"):
            kind = type(getattr(options, field.name))  # a float field of a message takes no int
            setattr(options, field.name, kind(getattr(params, field.name) or 0))
    options.seed = GenerationOptions.SEED_FRESH if params.seed is None else params.seed
    options.stop = [ros_text(text) for text in params.stop] or [""]
    return options


def refuse_reserved(options: GenerationOptions) -> None:
    """Raise SamplingError for the reserved fields schema, regex and choices: they must not be ignored."""
    for name in ("schema", "regex", "choices"):
        if value := getattr(options, name):
            raise SamplingError(
                f"{name} is reserved for a later release, got {str(value)[:40]!r}; leave it empty"
            )


def refuse_nul(name: str, text: str) -> None:
    """Raise PromptError for a text with a NUL, at which the middleware would cut it."""
    if "\0" in text:
        raise PromptError(f"the {name} holds a NUL character at position {text.index(chr(0))}; remove it")


def ros_text(text: str) -> str:
    """Replace what no ROS string holds by U+FFFD: a NUL would cut the text, a lone surrogate raises."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


def _stats(usage: Usage, timing: Timing) -> GenerationStats:
    milliseconds = {name: float(value) for name, value in vars(timing).items()}  # a message takes no int
    return GenerationStats(**vars(usage), **milliseconds)
