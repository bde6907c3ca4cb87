"""Statistics of a server: counts of outcomes and recent latencies."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

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
from edgegpt.runtime import percentile
from edgegpt.serving.request import Outcome, Request

LAST_REQUESTS: Final = 1000
LAST_TOKENS: Final = 4096

State = Literal["active", "inactive", "closed"]

OUTCOMES: Final = (
    *("eos", "stop", "length", "context", "deadline", "cancelled"),  # as reply.finish_reason
    "preempted",  # replaced by another request, running or waiting
    "deactivated",  # ended because the server was deactivated
    "rejected",  # never accepted: overload, or the server is not active
    "invalid",  # the prompt or the session is not valid
    "failed",  # the model failed
)


@dataclass(frozen=True)
class ServerStatistics:
    """Snapshot of a server's statistics. Milliseconds are 0 before the first measurement.

    Attributes:
        state: `active`, `inactive` or `closed`.
        busy: whether a request is running.
        waiting: number of waiting requests.
        sessions: number of named sessions.
        session_bytes: size of their caches.
        outcomes: number of requests since the start by how they ended; every name of OUTCOMES.
        deadline_misses: number of requests whose deadline cut them short or passed before their end.
        ttft_p50_ms: time to first token, from arrival, over the last LAST_REQUESTS that had one.
        ttft_p99_ms: likewise.
        token_p50_ms: time per output token, over the last LAST_TOKENS.
        token_p99_ms: likewise.
    """

    state: State
    busy: bool
    waiting: int
    sessions: int
    session_bytes: int
    outcomes: Mapping[str, int]
    deadline_misses: int
    ttft_p50_ms: float
    ttft_p99_ms: float
    token_p50_ms: float
    token_p99_ms: float


class Tally:
    """Counts requests in constant memory."""

    def __init__(self) -> None:
        self._outcomes = dict.fromkeys(OUTCOMES, 0)
        self._deadline_misses = 0
        self._ttft_ms: deque[float] = deque(maxlen=LAST_REQUESTS)
        self._token_ms: deque[float] = deque(maxlen=LAST_TOKENS)

    def refused(self, error: EdgeGPTError) -> None:
        """Count a request that was not accepted."""
        self._outcomes["rejected" if isinstance(error, NotActiveError) else _name_of(error)] += 1

    def ended(self, request: Request, outcome: Outcome, token_seconds: Iterable[float]) -> None:
        """Count a request that was accepted."""
        reply, limit = outcome.reply, request.params.deadline_ms
        self._outcomes[reply.finish_reason if outcome.error is None else _name_of(outcome.error)] += 1
        if reply.finish_reason == "deadline" or (limit is not None and reply.timing.total_ms > limit):
            self._deadline_misses += 1
        if reply.usage.completion_tokens:
            self._ttft_ms.append(reply.timing.ttft_ms)
        self._token_ms.extend(seconds * 1000 for seconds in token_seconds)

    def snapshot(
        self, *, state: State, busy: bool, waiting: int, sessions: int, session_bytes: int
    ) -> ServerStatistics:
        """Return the statistics; the arguments are the server's own fields of it."""
        return ServerStatistics(
            state=state,
            busy=busy,
            waiting=waiting,
            sessions=sessions,
            session_bytes=session_bytes,
            outcomes=MappingProxyType(dict(self._outcomes)),
            deadline_misses=self._deadline_misses,
            ttft_p50_ms=percentile(self._ttft_ms, 0.5),
            ttft_p99_ms=percentile(self._ttft_ms, 0.99),
            token_p50_ms=percentile(self._token_ms, 0.5),
            token_p99_ms=percentile(self._token_ms, 0.99),
        )


def _name_of(error: EdgeGPTError) -> str:
    match error:
        case OverloadedError():
            return "rejected"
        case PreemptedError():
            return "preempted"
        case NotActiveError():
            return "deactivated"
        case PromptError() | TokenizerError() | SamplingError() | SessionError():
            return "invalid"
        case _:
            return "failed"
