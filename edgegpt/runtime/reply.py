"""The reply to a request: text, usage and timing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["eos", "stop", "length", "context", "deadline", "cancelled", "error"]


@dataclass(frozen=True)
class TextChunk:
    """A part of the answer, whole characters and never empty; the chunks join to `Reply.text`."""

    text: str
    index: int  # number of this chunk, from 0
    byte_offset: int  # bytes of UTF-8 before this chunk


@dataclass(frozen=True)
class Usage:
    """Tokens of one request."""

    prompt_tokens: int  # before the answer, a session's earlier turns included
    completion_tokens: int  # generated, the end-of-text token and a stop string's included
    cached_tokens: int  # the part of prompt_tokens that was in a session's cache


@dataclass(frozen=True)
class Timing:
    """Times in milliseconds; 0 for a part that did not take place."""

    queue_ms: float  # from arrival to the first call of the model, without tokenising
    tokenise_ms: float
    prefill_ms: float  # reading the prompt and sampling the first token
    ttft_ms: float  # time to first token (TTFT), from arrival
    token_p50_ms: float  # a decode step with sampling, without the consumer's time
    token_p99_ms: float
    token_max_ms: float
    total_ms: float  # from arrival to the end


@dataclass(frozen=True)
class Reply:
    """A finished answer.

    `finish_reason`: `eos` the model ended it; `stop` a stop string did, which is not in the text;
    `length` max_new_tokens; `context` the context is full; `deadline` another step would have
    passed deadline_ms; `cancelled`, also by Ctrl-C; `error`. After the last three the text is partial.
    """

    text: str
    finish_reason: FinishReason
    usage: Usage
    timing: Timing
    token_ids: tuple[int, ...]


def percentile(values: Sequence[float], q: float) -> float:
    """Return the smallest value that at least the share q of them does not exceed; 0 for no values."""
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(q * len(values)) - 1)]
