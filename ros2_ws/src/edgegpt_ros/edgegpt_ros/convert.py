"""Between messages and what edgegpt takes and gives. No node, no topics."""

from dataclasses import dataclass, fields, replace
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
from edgegpt.runtime import FinishReason, SamplingParams, Timing, Usage
from edgegpt.serving import Outcome
from edgegpt_ros.wire import wire

_CODES: Final[dict[type[EdgeGPTError], int]] = {
    NotActiveError: ErrorCode.NOT_ACTIVE,
    OverloadedError: ErrorCode.REJECTED,
    PreemptedError: ErrorCode.PREEMPTED,
    PromptError: ErrorCode.INVALID_REQUEST,
    SamplingError: ErrorCode.INVALID_REQUEST,
    SessionError: ErrorCode.INVALID_REQUEST,
    TokenizerError: ErrorCode.INVALID_REQUEST,
}


@dataclass(frozen=True)
class Answer:
    """What every door says at the end of a request; the fields are those of the messages."""

    text: str
    finish_reason: FinishReason
    error_code: int
    error: str
    stats: GenerationStats

    def into(self, message: Any) -> Any:
        """Fill a result of Generate or a response of Complete."""
        for field in fields(self):
            setattr(message, field.name, getattr(self, field.name))
        return message


def answer_of(outcome: Outcome) -> Answer:
    """The answer to a request that the server had accepted."""
    reply, error = outcome.reply, outcome.error
    return Answer(
        text=wire(reply.text),
        finish_reason=reply.finish_reason,
        error_code=code_of(error),
        error="" if error is None else wire(str(error)),
        stats=stats_of(reply.usage, reply.timing),
    )


def refusal(error: EdgeGPTError) -> Answer:
    """The answer to a request that was never accepted."""
    return Answer("", "error", code_of(error), wire(str(error)), GenerationStats())


def code_of(error: EdgeGPTError | None) -> int:
    """The ErrorCode of an error, OK for none."""
    default = ErrorCode.OK if error is None else ErrorCode.ENGINE
    code: int = next((code for kind, code in _CODES.items() if isinstance(error, kind)), default)
    return code


def stats_of(usage: Usage, timing: Timing) -> GenerationStats:
    """Counts and milliseconds as a message."""
    milliseconds = {
        name: float(value) for name, value in vars(timing).items()
    }  # a message takes no int for it
    return GenerationStats(**vars(usage), **milliseconds)


def params_of(options: Any, own: SamplingParams) -> SamplingParams:
    """`own` with what the options say differently.

    Args:
        options: a GenerationOptions, or the node's parameters, which have the same names and mean the same.
        own: what -1 and an empty `stop` stand for.

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
    """The options of a node, with no -1 among them and what is off written out."""
    options = GenerationOptions(stream=int(stream))
    for field in fields(params):
        if field.name not in ("seed", "stop"):
            kind = type(getattr(options, field.name))  # a message takes no int for a float
            setattr(options, field.name, kind(getattr(params, field.name) or 0))
    options.seed = GenerationOptions.SEED_FRESH if params.seed is None else params.seed
    options.stop = [wire(text) for text in params.stop] or [""]
    return options


def refuse_constraints(options: GenerationOptions) -> None:
    """Refuse what this version cannot honour; it must not be ignored.

    Raises:
        SamplingError: the options hold a schema, a regex or choices.
    """
    for name in ("schema", "regex", "choices"):
        if value := getattr(options, name):
            raise SamplingError(
                f"this node cannot hold answers to a constraint yet, got {name} {str(value)[:40]!r}; "
                "leave it empty"
            )


def refuse_nul(name: str, text: str) -> None:
    """Refuse what the middleware would cut on its way back.

    Raises:
        PromptError: the text holds a NUL.
    """
    if "\0" in text:
        raise PromptError(f"the {name} holds a NUL character at position {text.index(chr(0))}; remove it")
