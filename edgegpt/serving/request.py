"""A request to a server, from its arrival to its outcome."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from edgegpt.errors import EdgeGPTError
from edgegpt.runtime import FinishReason, Reply, SamplingParams, Stream, TextChunk, Timing, Usage

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Request:
    """A request as it was submitted.

    Attributes:
        prompt: text to answer.
        params: sampling parameters, stop strings and deadline.
        session: name of its conversation; "" for none.
        priority: a higher one runs first.
        arrived: `engine.clock()` at its arrival.
    """

    prompt: str
    params: SamplingParams
    session: str
    priority: int
    arrived: float

    @property
    def deadline(self) -> float:
        """Latest end, on the clock of `arrived`; infinity without a deadline."""
        deadline_ms = self.params.deadline_ms
        return float("inf") if deadline_ms is None else self.arrived + deadline_ms / 1000

    def unread_reply(self, reason: FinishReason, now: float) -> Reply:
        """Return the reply to a request that ended, at `now`, before any call of the model."""
        waited = (now - self.arrived) * 1000
        return Reply("", reason, Usage(0, 0, 0), Timing(waited, 0, 0, 0, 0, 0, 0, waited), ())


@dataclass(frozen=True)
class Outcome:
    """End of a request: its reply and its error.

    Attributes:
        reply: the answer, or its text so far; the finish reason is `cancelled` if the request was
            preempted or the server deactivated, and `error` if it failed.
        error: PreemptedError, NotActiveError, or the error of the model. None for an answer, and for a
            request that its deadline or `RequestHandle.cancel` ended.
    """

    reply: Reply
    error: EdgeGPTError | None = None


class RequestHandle:
    """A future of a request that a server has accepted.

    Not a concurrent.futures.Future: that keeps its callbacks after the end, a reference cycle for each
    request, and lets SystemExit of a callback end the engine thread.

    Attributes:
        request: the request as it was submitted.
    """

    def __init__(
        self,
        request: Request,
        stream: Stream,
        flag: threading.Event,
        on_chunk: Callable[[TextChunk], object] | None,
        withdraw: Callable[["RequestHandle"], None],
    ) -> None:
        self.request = request
        # The server's; `finish` releases what they hold.
        self.stream: Stream | None = stream
        self.on_chunk = on_chunk
        self.flag = flag  # read before each call of the model; set, it ends the request
        self.ending = False
        self.ended_by: EdgeGPTError | None = None
        self._withdraw = withdraw
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._callbacks: list[Callable[[RequestHandle], object]] = []
        self._outcome: Outcome | None = None

    def cancel(self) -> None:
        """End the request before the next call of the model, with the text so far; from any thread.

        No effect on a request that has its last token.
        """
        if not self.done():
            self._withdraw(self)

    def done(self) -> bool:
        """Return whether there is an outcome."""
        return self._done.is_set()

    def outcome(self, timeout_s: float | None = None) -> Outcome:
        """Wait for the end and return the outcome. A callback of the server must not wait here.

        Raises:
            TimeoutError: timeout_s have passed; the request goes on.
        """
        if not self._done.wait(timeout_s):
            raise TimeoutError(f"the request has not ended within {timeout_s} s")
        assert self._outcome is not None
        return self._outcome

    def result(self, timeout_s: float | None = None) -> Reply:
        """Wait for the end and return the reply, or raise the outcome's error.

        Raises:
            TimeoutError: timeout_s have passed; the request goes on.
            EdgeGPTError: as Outcome.error; `outcome()` has the text so far.
        """
        outcome = self.outcome(timeout_s)
        if outcome.error is not None:
            raise outcome.error
        return outcome.reply

    def add_done_callback(self, callback: Callable[["RequestHandle"], object]) -> None:
        """Call `callback(handle)` at the end, on the server's thread; at once if the request has ended.

        The server waits for it to return. An exception that it raises is logged and dropped.
        """
        with self._lock:
            if self._outcome is None:
                self._callbacks.append(callback)
                return
        call_safely(callback, self)

    def end(self, error: EdgeGPTError | None) -> None:
        """End the request, for the server; only the first call sets the error."""
        if not self.ending:
            self.ending, self.ended_by = True, error
            self.flag.set()

    def finish(self, outcome: Outcome) -> None:
        """Publish the outcome and run the callbacks, for the server."""
        self.stream, self.on_chunk = None, None
        with self._lock:
            self._outcome = outcome
            callbacks, self._callbacks = self._callbacks, []
        self._done.set()
        for callback in callbacks:
            call_safely(callback, self)


def call_safely(callback: Callable[[_T], object], value: _T) -> bool:
    """Call it and return whether it returned; an exception, SystemExit included, is logged and dropped."""
    try:
        callback(value)
    except BaseException:
        _LOG.exception("a callback of a request failed: %r", callback)
        return False
    return True
