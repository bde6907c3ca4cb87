"""What a request gives: an answer, or an error that says why there is none."""

from dataclasses import dataclass, fields
from typing import Any

from edgegpt.runtime import FinishReason, Timing, Usage


class ClientError(Exception):
    """A request that got no whole answer."""


class NoServerError(ClientError):
    """There is no node that serves the action."""


class RefusedError(ClientError):
    """The node gave an error instead of a whole answer.

    Attributes:
        code: one of edgegpt_msgs.msg.ErrorCode.
        text: the answer until then.
    """

    def __init__(self, code: int, sentence: str, text: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.text = text


@dataclass(frozen=True)
class Answer:
    """A finished answer, as edgegpt.Reply without the token ids.

    `finish_reason` is eos, stop, length, context, deadline or cancelled.
    """

    text: str
    finish_reason: FinishReason
    usage: Usage
    timing: Timing


def answer_of(result: Any) -> Answer:
    """The answer that a result of Generate holds; raises the error that it holds instead.

    Raises:
        RefusedError: the node has no whole answer.
    """
    if result.error_code:
        raise RefusedError(result.error_code, result.error, result.text)
    stats = result.stats
    return Answer(
        text=result.text,
        finish_reason=result.finish_reason,
        usage=Usage(**{field.name: getattr(stats, field.name) for field in fields(Usage)}),
        timing=Timing(**{field.name: getattr(stats, field.name) for field in fields(Timing)}),
    )
