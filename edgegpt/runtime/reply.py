"""What comes back from a request."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["eos", "stop", "length", "context", "deadline", "cancelled", "error"]


@dataclass(frozen=True)
class TextChunk:
    """A part of the answer, whole characters and never empty; the pieces join to `Reply.text`."""

    text: str
    index: int  # of this piece, from 0
    byte_offset: int  # bytes of UTF-8 before this piece


@dataclass(frozen=True)
class Usage:
    """Tokens of one request."""

    prompt_tokens: int  # read before the answer, a session's earlier turns included
    completion_tokens: int  # generated, the end-of-text token and a stop string's included
    cached_tokens: int  # of prompt_tokens, those that a session's cache spared the model


@dataclass(frozen=True)
class Timing:
    """Milliseconds. A part that never happened is 0."""

    queue_ms: float  # from the request's arrival to the start of its work, tokenising apart
    tokenise_ms: float
    prefill_ms: float  # reading the prompt and choosing the first token
    ttft_ms: float  # from arrival to the first token
    token_p50_ms: float  # one further token: decode and sampling, the consumer's time not counted
    token_p99_ms: float
    token_max_ms: float
    total_ms: float  # from arrival to the end


@dataclass(frozen=True)
class Reply:
    """A finished answer.

    `finish_reason`: `eos` the model ended it; `stop` a stop string did, which is not in the text;
    `length` max_new_tokens; `context` the context is full; `deadline` another step would have
    passed deadline_ms; `cancelled`, also by Ctrl-C, or `error`: the text is what there was until then.
    """

    text: str
    finish_reason: FinishReason
    usage: Usage
    timing: Timing
    token_ids: tuple[int, ...]


def percentile(values: Sequence[float], q: float) -> float:
    """The smallest of the values that at least the share q does not exceed; 0 for none."""
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(q * len(values)) - 1)]
