"""Serve one TextGenerator to many clients: one engine thread and a bounded queue."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, sleep
from typing import Final

from edgegpt.errors import (
    EdgeGPTError,
    EngineError,
    NotActiveError,
    PreemptedError,
    PromptError,
    first_line,
    whole_number,
)
from edgegpt.runtime import FinishReason, SamplingParams, Stream, TextChunk, TextGenerator, return_free_memory
from edgegpt.serving.request import Outcome, Request, RequestHandle, call_safely
from edgegpt.serving.scheduler import Overload, Scheduler
from edgegpt.serving.sessions import SessionStore
from edgegpt.serving.stats import ServerStatistics, State, Tally

_LOG = logging.getLogger(__name__)

# A longer text, in contexts of the longest tokens, is not counted: counting takes about 180 bytes a token.
MOST_CONTEXTS: Final = 16


class GenerationServer:
    """Answers requests one after another on a thread of its own; any thread may submit.

    `Scheduler` decides which requests wait, are refused or preempted; `SessionStore` holds the named
    sessions. A turn that failed, was cancelled or preempted leaves its session unchanged, and deactivation
    keeps all sessions.

    Callbacks run on the engine thread, one at a time and without a lock held, so they may call any method;
    the model waits for them. Called from a callback, `deactivate` and `close` do not wait for the end.

    The thread sleeps while there is nothing to do, and ends with `close`.
    """

    def __init__(
        self,
        generator: TextGenerator,
        *,
        overload: Overload = "queue",
        queue_depth: int = 8,
        session_bytes: int = 256 * 2**20,
        session_ttl_s: float = 600.0,
        active: bool = True,
    ) -> None:
        """Start the thread.

        Args:
            generator: other threads may use it too, which takes time of the engine.
            overload: policy for a request that is submitted while another one runs, see `Scheduler`.
            queue_depth: number of requests that may wait.
            session_bytes: limit for the caches of all named sessions together; 0 allows no session.
            session_ttl_s: seconds without use after which a session is removed.
            active: whether to accept requests at once, or only after `activate`.

        Raises:
            ConfigError: an option is outside its range.
            EngineError: generator is not a TextGenerator, such as `edgegpt.load` returns.
        """
        if not isinstance(generator, TextGenerator):
            raise EngineError(
                f"generator must be a TextGenerator, as edgegpt.load returns, got {generator!r}"
            )
        self.generator = generator
        self._clock = generator.engine.clock
        self._scheduler = Scheduler(overload, queue_depth)
        self._sessions = SessionStore(generator, max_bytes=session_bytes, ttl_s=session_ttl_s)
        self._tally = Tally()
        self._state: State = "active" if active else "inactive"
        self._ended: list[tuple[RequestHandle, FinishReason]] = []  # while they waited; not yet finished
        self._asleep = False
        self._changed = threading.Condition(threading.Lock())  # guards all of the above
        self._thread = threading.Thread(target=self._work, name="edgegpt-engine", daemon=True)
        self._thread.start()

    def submit(
        self,
        prompt: str,
        params: SamplingParams | None = None,
        *,
        session: str = "",
        priority: int = 0,
        on_chunk: Callable[[TextChunk], object] | None = None,
        arrived: float | None = None,
    ) -> RequestHandle:
        """Queue a request.

        Args:
            prompt: text to answer.
            params: sampling parameters; None is `generator.sampling`. `deadline_ms` counts from arrival: a
                request whose deadline passes while it waits ends without a call of the model.
            session: name of a conversation, which is created if missing; "" for none.
            priority: a higher one runs before all waiting requests with a lower one.
            on_chunk: called with each chunk of the answer. An exception that it raises is logged, and it
                is not called again; the answer goes on.
            arrived: `engine.clock()` (time.perf_counter()) at the request's arrival; None is now.

        Raises:
            NotActiveError: the server is inactive or closed.
            OverloadedError: the queue is full, or the policy refuses the request.
            EngineError: priority is not a whole number.
            PromptError, SamplingError, TokenizerError: as TextGenerator.generate. A prompt that does not
                fit after its session's turns is accepted and fails with PromptError.
            SessionError: session_bytes is smaller than one cache.
        """
        params = self.generator.sampling if params is None else params
        arrived = self._clock() if arrived is None else arrived
        try:
            self._refuse_unless_active()
            self._sessions.check(session)
            priority = whole_number("priority", priority, EngineError, least=-(2**31))
            flag = _Flag(self._finish_ended)
            stream = self.generator.stream(prompt, params, cancel=flag, arrived=arrived)
            request = Request(prompt, params, session, priority, arrived)
            handle = RequestHandle(request, stream, flag, on_chunk, self._withdraw)
            with self._changed:
                self._refuse_unless_active()
                for preempted in self._scheduler.submit(handle):
                    self._end(preempted, PreemptedError(_why_preempted(request, preempted.request)))
                self._changed.notify_all()
            sleep(0)  # yields to the engine thread, which would otherwise start only when this thread waits
        except EdgeGPTError as error:
            with self._changed:
                self._tally.refused(error)
            raise
        return handle

    def activate(self) -> None:
        """Accept requests.

        Raises:
            NotActiveError: the server is closed.
        """
        with self._changed:
            if self._state == "closed":
                raise NotActiveError("the server is closed and cannot be activated again; make a new one")
            self._state = "active"

    def deactivate(self, timeout_s: float = 2.0) -> bool:
        """Refuse new requests, and end running and waiting ones with NotActiveError and their text so far.

        Returns:
            whether all have ended and their callbacks returned, after waiting timeout_s at most.
        """
        return self._stop("inactive", timeout_s)

    def close(self, timeout_s: float = 2.0) -> bool:
        """Deactivate for good, drop the sessions and end the thread.

        Returns:
            whether the thread has ended, after waiting timeout_s at most.
        """
        began = perf_counter()
        if self._stop("closed", timeout_s):
            self._thread.join(max(0.0, timeout_s - (perf_counter() - began)))
        return not self._thread.is_alive()

    def __enter__(self) -> "GenerationServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def state(self) -> State:
        """`active`, `inactive` or `closed`."""
        return self._state

    def statistics(self) -> ServerStatistics:
        """Return counts since the start, recent latencies, and the current state."""
        names, n_bytes = self._sessions.names, self._sessions.bytes
        with self._changed:
            return self._tally.snapshot(
                state=self._state,
                busy=self._scheduler.running is not None,
                waiting=len(self._scheduler),
                sessions=len(names),
                session_bytes=n_bytes,
            )

    def count_tokens(self, prompt: str, *, session: str = "") -> "TokenCount":
        """Count the tokens of a prompt after the session's turns so far; creates and uses no session.

        Raises:
            PromptError: the prompt is longer than MOST_CONTEXTS contexts.
            TokenizerError: the prompt holds half of a character (a lone surrogate).
        """
        known = self._sessions.find(session)
        return count_tokens(self.generator, prompt, taken=0 if known is None else len(known.token_ids))

    def predicted_ms(self, tokens: int) -> float:
        """Return the expected milliseconds to read this many tokens on an idle server; 0 before the first."""
        return self.generator.latency.prefill(tokens) * 1000

    def _refuse_unless_active(self) -> None:
        if self._state != "active":
            raise NotActiveError(f"the server is {self._state} and accepts no requests")

    def _end(self, handle: RequestHandle, error: EdgeGPTError | None) -> None:
        """End the running request, or one already removed from the scheduler; the lock is held."""
        handle.end(error)
        if handle is not self._scheduler.running:
            self._ended.append((handle, "cancelled"))

    def _withdraw(self, handle: RequestHandle) -> None:
        with self._changed:
            if self._scheduler.remove(handle) or handle is self._scheduler.running:
                self._end(handle, None)
                self._changed.notify_all()

    def _stop(self, state: State, timeout_s: float) -> bool:
        with self._changed:
            if self._state != "closed":
                self._state = state
            running = [] if self._scheduler.running is None else [self._scheduler.running]
            for handle in [*running, *self._scheduler.remove_waiting()]:
                self._end(handle, NotActiveError("the server was deactivated before the request had ended"))
            self._changed.notify_all()
            if threading.current_thread() is self._thread:
                return False
            return self._changed.wait_for(self._is_idle, timeout_s)

    def _is_idle(self) -> bool:
        return self._asleep and self._scheduler.running is None and not self._ended

    # The engine thread

    def _work(self) -> None:
        while self._serve_next_safely():
            pass
        self._sessions.clear()

    def _serve_next_safely(self) -> bool:
        """Keep the thread alive after an unexpected error; without it every later request would block."""
        try:
            return self._serve_next()
        except Exception:
            _LOG.exception("unexpected error in the server")
            with self._changed:
                handle = self._scheduler.running
                if handle is not None:
                    self._scheduler.advance()
            if handle is not None and not handle.done():
                error = EngineError("unexpected error in the server; see its log")
                self._finish(
                    handle, Outcome(handle.request.unread_reply("error", self._clock()), error), None
                )
            return True

    def _serve_next(self) -> bool:
        with self._changed:
            self._asleep = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._is_idle() or self._state == "closed")
            if self._is_idle():
                return False
            self._asleep = False
            handle = self._scheduler.running
        self._finish_ended()
        if handle is not None:
            outcome, stream = self._answer(handle)
            with self._changed:
                self._scheduler.advance()
            self._finish(handle, outcome, stream)
        return True

    def _answer(self, handle: RequestHandle) -> tuple[Outcome, Stream | None]:
        request, stream, error = handle.request, None, None
        if handle.ending:
            return Outcome(request.unread_reply("cancelled", self._clock()), handle.ended_by), None
        if self._clock() >= request.deadline:
            return Outcome(request.unread_reply("deadline", self._clock())), None
        try:
            with self._sessions.use(request.session) as session:
                stream = handle.stream
                if session is not None:  # the prompt follows the turns that are in it now
                    stream = session.stream(
                        request.prompt, request.params, cancel=handle.flag, arrived=request.arrived
                    )
                assert stream is not None
                for chunk in stream:
                    if handle.on_chunk is not None and not call_safely(handle.on_chunk, chunk):
                        handle.on_chunk = None
        except EdgeGPTError as e:
            error = e
        except Exception as e:
            _LOG.exception("unexpected error in a request")
            error = EngineError(f"unexpected error in the request: {first_line(e)}")
        reply = None if stream is None else stream.reply
        if reply is None:
            reply = request.unread_reply("error", self._clock())
        if reply.finish_reason == "cancelled":
            error = handle.ended_by
        # A traceback would keep this frame alive, and with it the request's memory.
        return Outcome(reply, None if error is None else error.with_traceback(None)), stream

    def _finish_ended(self) -> None:
        """Finish requests that ended while they waited; almost free when there are none."""
        if not self._ended and self._clock() < self._scheduler.next_deadline:
            return
        with self._changed:
            expired = self._scheduler.remove_expired(self._clock())
            ended, self._ended = [*self._ended, *((handle, "deadline") for handle in expired)], []
        for handle, reason in ended:
            reply = handle.request.unread_reply(reason, self._clock())
            self._finish(handle, Outcome(reply, handle.ended_by), None)

    def _finish(self, handle: RequestHandle, outcome: Outcome, stream: Stream | None) -> None:
        with self._changed:
            self._tally.ended(handle.request, outcome, () if stream is None else stream.token_seconds)
        handle.finish(outcome)


def _why_preempted(new: Request, old: Request) -> str:
    kind = "more urgent" if new.priority > old.priority else "newer"
    return f"a {kind} request of priority {new.priority} replaced this one"


@dataclass(frozen=True)
class TokenCount:
    """Length of a prompt in tokens, and the expected milliseconds of its answer on an idle engine.

    Attributes:
        tokens: number of tokens of the prompt alone.
        remaining: tokens of the context that are left for the answer, after the session's turns and the
            prompt. Below 1 the prompt would be refused: it is `1 - remaining` tokens too long.
        predicted_ttft_ms: time to first token, to read the prompt and sample.
        predicted_token_ms: time of each token after the first.
    """

    tokens: int
    remaining: int
    predicted_ttft_ms: float
    predicted_token_ms: float


def count_tokens(generator: TextGenerator, prompt: str, *, taken: int = 0) -> TokenCount:
    """Count the tokens of a prompt that follows `taken` tokens of a session.

    The milliseconds are the estimates that deadlines use: the mean for the first token, somewhat more than
    the mean for later ones; 0 before the model has run.

    Raises:
        PromptError: the prompt is longer than MOST_CONTEXTS contexts.
        TokenizerError: the prompt holds half of a character (a lone surrogate).
    """
    n_bytes, most = len(prompt.encode("utf-8", "replace")), MOST_CONTEXTS * generator.most_bytes
    if n_bytes > most:
        raise PromptError(
            f"the prompt has {n_bytes} bytes and at most {most} are counted, {MOST_CONTEXTS} times what the "
            "context could hold; shorten it"
        )
    tokens = len(generator.tokenizer.encode_prompt(prompt))
    if tokens > generator.engine.capacity:  # may be a very long text
        return_free_memory()
    remaining = generator.engine.capacity - taken - tokens
    new = tokens + (taken > 0)  # a session's last token is not in its cache yet
    latency = generator.latency
    return TokenCount(tokens, remaining, latency.prefill(new) * 1000, latency.decode.seconds * 1000)


class _Flag(threading.Event):
    """A request's cancellation flag, read before each call of the model, which also runs `on_read`."""

    def __init__(self, on_read: Callable[[], None]) -> None:
        super().__init__()
        self._on_read = on_read

    def is_set(self) -> bool:
        self._on_read()
        return super().is_set()
