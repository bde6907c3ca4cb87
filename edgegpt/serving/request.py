"""A request to a server, from its arrival to its outcome."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import TypeVar

# A ticket ends with them, so they can be had from here too.
from edgegpt.errors import (
    EdgeGPTError,
    NotActiveError as NotActiveError,
    OverloadedError as OverloadedError,
    PreemptedError as PreemptedError,
)
from edgegpt.runtime import FinishReason, Reply, SamplingParams, Stream, TextChunk, Timing, Usage

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Request:
    """What was asked for, and when: time.perf_counter() at its arrival."""

    prompt: str
    params: SamplingParams
    session: str
    priority: int
    arrived: float

    @property
    def deadline(self) -> float:
        """On the clock of `arrived`; infinity for none."""
        deadline_ms = self.params.deadline_ms
        return float("inf") if deadline_ms is None else self.arrived + deadline_ms / 1000

    def unread_reply(self, reason: FinishReason) -> Reply:
        """The reply to a request that the model never saw."""
        waited = (perf_counter() - self.arrived) * 1000
        return Reply("", reason, Usage(0, 0, 0), Timing(waited, 0, 0, 0, 0, 0, 0, waited), ())


@dataclass(frozen=True)
class Outcome:
    """How a request ended, in whatever way.

    Attributes:
        reply: the answer, or the text until the request ended; that is `cancelled` when it was
            preempted or the server deactivated, and `error` when it failed.
        error: why there is no whole answer: PreemptedError, NotActiveError, or what went wrong. None
            for an answer, and for a request that its deadline or `RequestHandle.cancel` ended.
    """

    reply: Reply
    error: EdgeGPTError | None = None


class RequestHandle:
    """The handle of a request that a server has accepted.

    Attributes:
        request: what was asked for.
    """

    def __init__(
        self,
        request: Request,
        stream: Stream,
        flag: threading.Event,
        on_piece: Callable[[TextChunk], object] | None,
        withdraw: Callable[["RequestHandle"], None],
    ) -> None:
        self.request = request
        # The server's; what they hold is let go with the outcome.
        self.stream: Stream | None = stream
        self.on_piece = on_piece
        self.flag = flag  # the model stops when it is set
        self.ending = False
        self.ended_by: EdgeGPTError | None = None
        self._withdraw = withdraw
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._callbacks: list[Callable[[RequestHandle], object]] = []
        self._outcome: Outcome | None = None

    def cancel(self) -> None:
        """End the request before the next call of the model, with the text so far; from any thread.

        Too late for a request that has its last token; the outcome then is what it was.
        """
        if not self.done():
            self._withdraw(self)

    def done(self) -> bool:
        """Whether there is an outcome."""
        return self._done.is_set()

    def outcome(self, timeout_s: float | None = None) -> Outcome:
        """Wait for the end; raises nothing but TimeoutError. Not for a callback of the server.

        Raises:
            TimeoutError: timeout_s have passed; the request goes on.
        """
        if not self._done.wait(timeout_s):
            raise TimeoutError(f"the request has not ended within {timeout_s} s")
        assert self._outcome is not None
        return self._outcome

    def result(self, timeout_s: float | None = None) -> Reply:
        """Wait for the end, and raise the outcome's error if it has one.

        Raises:
            TimeoutError: timeout_s have passed; the request goes on.
            EdgeGPTError: as Outcome.error; `outcome()` still has the text until then.
        """
        outcome = self.outcome(timeout_s)
        if outcome.error is not None:
            raise outcome.error
        return outcome.reply

    def add_done_callback(self, callback: Callable[["RequestHandle"], object]) -> None:
        """Have `callback(ticket)` called at the end, on the server's thread; at once if it has ended.

        The server waits for it to return. What it raises is logged and goes no further.
        """
        with self._lock:
            if self._outcome is None:
                self._callbacks.append(callback)
                return
        call_safely(callback, self)

    def end(self, error: EdgeGPTError | None) -> None:
        """For the server: stop the work; the first reason to is the one that counts."""
        if not self.ending:
            self.ending, self.ended_by = True, error
            self.flag.set()

    def finish(self, outcome: Outcome) -> None:
        """For the server: publish the outcome and call back."""
        self.stream, self.on_piece = None, None
        with self._lock:
            self._outcome = outcome
            callbacks, self._callbacks = self._callbacks, []
        self._done.set()
        for callback in callbacks:
            call_safely(callback, self)


def call_safely(callback: Callable[[_T], object], value: _T) -> bool:
    """Call it; whether it returned. What it raises, SystemExit too, is logged and goes no further."""
    try:
        callback(value)
    except BaseException:
        _LOG.exception("a callback of a request failed: %r", callback)
        return False
    return True
