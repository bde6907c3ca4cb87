"""One engine thread and a bounded queue in front of it: a TextGenerator for many askers at once.

What a prompt would take, without answering it.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, sleep
from typing import Final

from edgegpt.errors import EdgeGPTError, EngineError, NotActiveError, PreemptedError, PromptError, first_line
from edgegpt.runtime import FinishReason, SamplingParams, Stream, TextChunk, TextGenerator, return_free_memory
from edgegpt.serving.request import Outcome, Request, RequestHandle, call_safely
from edgegpt.serving.scheduler import Overload, Scheduler
from edgegpt.serving.sessions import SessionStore
from edgegpt.serving.stats import ServerStatistics, State, Tally

# A text of more than so many contexts of the longest tokens is not counted: a token takes about 180 bytes
# while it is.
MOST_CONTEXTS: Final = 16


@dataclass(frozen=True)
class TokenCount:
    """Tokens of a prompt and, on an idle engine, the milliseconds its answer would take.

    Attributes:
        tokens: of the prompt alone.
        remaining: of the context for the answer, after the session's turns and the prompt. Below 1 the
            prompt would be refused: it is `1 - remaining` tokens too long.
        predicted_ttft_ms: to read the prompt and choose the first token.
        predicted_token_ms: for each token after the first.
    """

    tokens: int
    remaining: int
    predicted_ttft_ms: float
    predicted_token_ms: float


def count_tokens(generator: TextGenerator, prompt: str, *, taken: int = 0) -> TokenCount:
    """Count a prompt that follows `taken` tokens of a session; it may be up to MOST_CONTEXTS times too long.

    The milliseconds are those by which deadlines are judged: the mean for the first token, a little more
    for those after it; 0 while the model has not run.

    Raises:
        PromptError: the prompt is longer than that.
        TokenizerError: the prompt holds half of a character (a lone surrogate).
    """
    n_bytes, most = len(prompt.encode("utf-8", "replace")), MOST_CONTEXTS * generator.most_bytes
    if n_bytes > most:
        raise PromptError(
            f"the prompt has {n_bytes} bytes and at most {most} are counted, {MOST_CONTEXTS} times what the "
            "context could hold; shorten it"
        )
    tokens = len(generator.tokenizer.encode_prompt(prompt))
    if tokens > generator.engine.capacity:  # far too long, perhaps
        return_free_memory()
    remaining = generator.engine.capacity - taken - tokens
    new = tokens + (taken > 0)  # a session's last token is not in its cache yet
    return TokenCount(tokens, remaining, predicted_ms(generator, new), generator.pace.decode.seconds * 1000)


def predicted_ms(generator: TextGenerator, tokens: int) -> float:
    """Milliseconds to read so many tokens, by what the steps so far took."""
    return generator.pace.prefill(tokens) * 1000


_LOG = logging.getLogger(__name__)


class _Flag(threading.Event):
    """A request's flag of cancellation. The model looks at it before each call: time to look around."""

    def __init__(self, look_around: Callable[[], None]) -> None:
        super().__init__()
        self._look_around = look_around

    def is_set(self) -> bool:
        self._look_around()
        return super().is_set()


class GenerationServer:
    """Answers requests one after another on a thread of its own; any thread may submit.

    Who waits, who is refused and who makes room for whom: `Scheduler`. Named sessions, and how long
    they stay: `SessionStore`. A turn that failed, was cancelled or preempted leaves its session as it
    was, and deactivation leaves all sessions.

    Callbacks are called on the engine thread, one at a time and without a lock held, so they may call
    anything here; the model waits for them. To deactivate or close from one does not wait for the end.

    The thread sleeps while there is nothing to do. It lives until `close`.
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
            generator: others may use it too, but take the engine's time.
            overload: what a request meets while another one is at work.
            queue_depth: number of requests that may wait.
            session_bytes: what the caches of all named sessions may take together; 0 allows none.
            session_ttl_s: a session is forgotten when it was not used for so long.
            active: whether to take requests at once, or only after `activate`.

        Raises:
            ConfigError: an option is outside its range.
        """
        self.generator = generator
        self._queue = Scheduler(overload, queue_depth)
        self._sessions = SessionStore(generator, max_bytes=session_bytes, ttl_s=session_ttl_s)
        self._tally = Tally()
        self._state: State = "active" if active else "inactive"
        self._ended: list[tuple[RequestHandle, FinishReason]] = []  # while they waited; not yet told
        self._asleep = False
        self._changed = threading.Condition(threading.Lock())  # guards everything above
        self._thread = threading.Thread(target=self._work, name="edgegpt-engine", daemon=True)
        self._thread.start()

    def submit(
        self,
        prompt: str,
        params: SamplingParams | None = None,
        *,
        session: str = "",
        priority: int = 0,
        on_piece: Callable[[TextChunk], object] | None = None,
        arrived: float | None = None,
    ) -> RequestHandle:
        """Ask for an answer.

        Args:
            prompt: what to answer.
            params: how to answer; None is `generator.sampling`. `deadline_ms` counts from arrival: a
                request that it ends while it waits never reaches the model.
            session: name of the conversation that this goes on with, or begins; "" for none.
            priority: a higher one goes before all that wait with a lower one.
            on_piece: called with each piece of the answer. It is not called again once it has raised,
                which is logged; the answer goes on.
            arrived: time.perf_counter() when the request arrived; None is now.

        Raises:
            NotActiveError: the server is inactive or closed.
            OverloadedError: there is no place for the request now.
            PromptError, TokenizerError: as TextGenerator.generate. What does not fit behind a session's
                turns fails later, with PromptError too.
            SessionError: no session fits into session_bytes.
        """
        params = self.generator.sampling if params is None else params
        arrived = perf_counter() if arrived is None else arrived
        try:
            self._refuse_unless_active()
            self._sessions.check(session)
            flag = _Flag(self._tell_ended)
            stream = self.generator.stream(prompt, params, cancel=flag, arrived=arrived)
            request = Request(prompt, params, session, priority, arrived)
            ticket = RequestHandle(request, stream, flag, on_piece, self._withdraw)
            with self._changed:
                self._refuse_unless_active()
                for other in self._queue.offer(ticket):
                    self._end(other, PreemptedError(_took_the_place(request, other.request)))
                self._changed.notify_all()
            sleep(0)  # lets the engine thread begin, which else waits until this thread does
        except EdgeGPTError as error:
            with self._changed:
                self._tally.refused(error)
            raise
        return ticket

    def activate(self) -> None:
        """Take requests.

        Raises:
            NotActiveError: the server is closed.
        """
        with self._changed:
            if self._state == "closed":
                raise NotActiveError("the server is closed and cannot be activated again; make a new one")
            self._state = "active"

    def deactivate(self, timeout_s: float = 2.0) -> bool:
        """Refuse new requests, and end those at work and waiting with NotActiveError and their text so far.

        Returns:
            Whether all have ended and their callbacks returned; waits for that until timeout_s have passed.
        """
        return self._stop("inactive", timeout_s)

    def close(self, timeout_s: float = 2.0) -> bool:
        """Deactivate for good, forget the sessions and end the thread.

        Returns:
            Whether the thread has ended; waits for that until timeout_s have passed.
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
        """Whether requests are taken."""
        return self._state

    def statistics(self) -> ServerStatistics:
        """Counts since the beginning, latencies of late, and what is going on."""
        names, n_bytes = self._sessions.names, self._sessions.bytes
        with self._changed:
            return self._tally.snapshot(
                state=self._state,
                busy=self._queue.running is not None,
                waiting=len(self._queue),
                sessions=len(names),
                session_bytes=n_bytes,
            )

    def count_tokens(self, prompt: str, *, session: str = "") -> TokenCount:
        """What a prompt would take, behind the session's turns so far; begins no session and uses none.

        Raises:
            PromptError: the prompt is longer than token_count.MOST_CONTEXTS times what the context holds.
            TokenizerError: the prompt holds half of a character (a lone surrogate).
        """
        known = self._sessions.find(session)
        return count_tokens(self.generator, prompt, taken=0 if known is None else len(known.token_ids))

    def predicted_ms(self, tokens: int) -> float:
        """Milliseconds that reading so many tokens would take on an idle server; 0 before any ran."""
        return predicted_ms(self.generator, tokens)

    def _refuse_unless_active(self) -> None:
        if self._state != "active":
            raise NotActiveError(f"the server is {self._state} and takes no requests")

    def _end(self, ticket: RequestHandle, error: EdgeGPTError | None) -> None:
        """End a request at work, or one that is out of the queue already; with the lock held."""
        ticket.end(error)
        if ticket is not self._queue.running:
            self._ended.append((ticket, "cancelled"))

    def _withdraw(self, ticket: RequestHandle) -> None:
        with self._changed:
            if self._queue.remove(ticket) or ticket is self._queue.running:
                self._end(ticket, None)
                self._changed.notify_all()

    def _stop(self, state: State, timeout_s: float) -> bool:
        with self._changed:
            if self._state != "closed":
                self._state = state
            at_work = [] if self._queue.running is None else [self._queue.running]
            for ticket in [*at_work, *self._queue.remove_waiting()]:
                self._end(ticket, NotActiveError("the server was deactivated before the request had ended"))
            self._changed.notify_all()
            if threading.current_thread() is self._thread:
                return False
            return self._changed.wait_for(self._is_idle, timeout_s)

    def _is_idle(self) -> bool:
        return self._asleep and self._queue.running is None and not self._ended

    # The engine thread

    def _work(self) -> None:
        while self._serve_next_safely():
            pass
        self._sessions.clear()

    def _serve_next_safely(self) -> bool:
        """A last guard: were the thread to die, every later request would wait for ever."""
        try:
            return self._serve_next()
        except Exception:
            _LOG.exception("the server failed in a way that nobody expected")
            with self._changed:
                ticket = self._queue.running
                if ticket is not None:
                    self._queue.advance()
            if ticket is not None and not ticket.done():
                error = EngineError("the server failed; its log says how")
                self._tell(ticket, Outcome(ticket.request.unread_reply("error"), error), None)
            return True

    def _serve_next(self) -> bool:
        with self._changed:
            self._asleep = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._is_idle() or self._state == "closed")
            if self._is_idle():
                return False
            self._asleep = False
            ticket = self._queue.running
        self._tell_ended()
        if ticket is not None:
            outcome, stream = self._answer(ticket)
            with self._changed:
                self._queue.advance()
            self._tell(ticket, outcome, stream)
        return True

    def _answer(self, ticket: RequestHandle) -> tuple[Outcome, Stream | None]:
        request, stream, error = ticket.request, None, None
        if ticket.ending:
            return Outcome(request.unread_reply("cancelled"), ticket.ended_by), None
        if perf_counter() >= request.deadline:
            return Outcome(request.unread_reply("deadline")), None
        try:
            with self._sessions.use(request.session) as session:
                stream = ticket.stream
                if session is not None:  # only now is it known what the prompt follows
                    stream = session.stream(
                        request.prompt, request.params, cancel=ticket.flag, arrived=request.arrived
                    )
                assert stream is not None
                for piece in stream:
                    if ticket.on_piece is not None and not call_safely(ticket.on_piece, piece):
                        ticket.on_piece = None
        except EdgeGPTError as e:
            error = e
        except Exception as e:
            _LOG.exception("a request failed in a way that nobody expected")
            error = EngineError(f"the request failed: {first_line(e)}")
        reply = None if stream is None else stream.reply
        if reply is None:
            reply = request.unread_reply("error")
        if reply.finish_reason == "cancelled":
            error = ticket.ended_by
        # A traceback would hold this frame, and with it what the request held.
        return Outcome(reply, None if error is None else error.with_traceback(None)), stream

    def _tell_ended(self) -> None:
        """Tell those that ended while they waited; costs next to nothing when there is none."""
        if not self._ended and perf_counter() < self._queue.next_deadline:
            return
        with self._changed:
            expired = self._queue.remove_expired(perf_counter())
            ended, self._ended = [*self._ended, *((ticket, "deadline") for ticket in expired)], []
        for ticket, reason in ended:
            reply = ticket.request.unread_reply(reason)
            self._tell(ticket, Outcome(reply, ticket.ended_by), None)

    def _tell(self, ticket: RequestHandle, outcome: Outcome, stream: Stream | None) -> None:
        with self._changed:
            self._tally.ended(ticket.request, outcome, () if stream is None else stream.token_seconds)
        ticket.finish(outcome)


def _took_the_place(new: Request, old: Request) -> str:
    kind = "more urgent" if new.priority > old.priority else "newer"
    return f"a {kind} request of priority {new.priority} took the place of this one"
