"""A request on its way: wait for the answer, read it while it grows, or cancel it."""

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Final
from uuid import uuid4

from action_msgs.msg import GoalStatus
from edgegpt_msgs.msg import TokenChunk

from edgegpt.runtime import FinishReason, Timing, Usage
from edgegpt_ros.spinner import Spinner


class ClientError(Exception):
    """A request has no whole answer."""


class NoServerError(ClientError):
    """No node serves the action."""


class RefusedError(ClientError):
    """The node has sent an error instead of a whole answer.

    Attributes:
        code: one of edgegpt_msgs.msg.ErrorCode.
        text: the answer up to the error.
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


class Pending:
    """A request on its way. Any thread may wait for it; the client's thread receives its messages.

    Attributes:
        request_id: id of the request's chunks on the topic `tokens`.
    """

    def __init__(
        self,
        spinner: Spinner,
        on_text: Callable[[str], object] | None,
        send_cancel: Callable[["Pending"], None],
        on_end: Callable[["Pending"], None],
    ) -> None:
        """Create a request that the client sends afterwards.

        Args:
            spinner: the client's thread.
            on_text: called with each new text, on the client's thread.
            send_cancel: asks the node to cancel, from any thread.
            on_end: called once, when there is an answer or an error.
        """
        self.uuid: Final = uuid4()
        self.request_id: Final = self.uuid.hex
        self._spinner = spinner
        self._on_text = on_text
        self._send_cancel = send_cancel
        self._on_end = on_end
        self._texts: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._received_bytes = 0  # length of the answer's UTF-8; only the client's thread uses it
        self._next_index = 0
        self._lock = threading.Lock()  # guards what follows; no callback is called while it is held
        self._done = threading.Event()
        self._answer: Answer | None = None
        self._error: ClientError | None = None
        self._accepted = False
        self._cancelled = False

    def result(self, timeout_s: float | None = None) -> Answer:
        """Wait for the answer.

        Raises:
            TimeoutError: timeout_s have passed; the request goes on, `cancel` ends it.
            RefusedError: the node has sent an error instead of a whole answer.
            NoServerError: there is no node, or it has gone.
            ClientError: called inside on_text, where waiting would block forever.
        """
        if not self.done():
            refuse_to_block(self._spinner, "result")
        if not self._done.wait(None if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX)):
            raise TimeoutError(f"no answer within {timeout_s} s")
        if self._error is not None:
            raise self._error
        assert self._answer is not None
        return self._answer

    def done(self) -> bool:
        """Return whether `result` returns at once."""
        return self._done.is_set()

    def cancel(self) -> None:
        """Ask the node to end the request; the result then holds the text so far, and `cancelled`."""
        with self._lock:
            self._cancelled = True
            known = self._accepted and not self.done()
        if known:  # the node ignores a cancellation of a goal that it has not accepted yet
            self._send_cancel(self)

    def __iter__(self) -> Iterator[str]:
        """Yield the answer's text while it grows; raises at the end what `result` raises."""
        if not self.done():
            refuse_to_block(self._spinner, "the stream")
        while (text := self._texts.get()) is not None:
            yield text
        self._texts.put(None)  # ends a later iteration too
        self.result(0)

    # Called on the client's thread

    def guarded(self, step: Callable[..., None], *arguments: Any) -> None:
        """Call a function; an exception ends the request, which would never end otherwise."""
        try:
            step(*arguments)
        except Exception as error:
            self.fail(ClientError(f"the client failed: {error!r}"))

    def accepted(self) -> None:
        """Record that the node has accepted the goal, and send a cancellation that came before."""
        with self._lock:
            self._accepted = True
            cancelled = self._cancelled
        if cancelled:
            self._send_cancel(self)

    def receive(self, chunk: TokenChunk) -> None:
        """Take a chunk of the answer; after a missing one wait for the result, which holds the whole text."""
        if chunk.index == self._next_index and chunk.byte_offset == self._received_bytes:
            self._next_index += 1
            self._append(chunk.text)

    def finish(self, response: Any) -> None:
        """Take the response to the request for the goal's result."""
        if response.status == GoalStatus.STATUS_UNKNOWN:  # its result is empty
            self.fail(NoServerError("the node no longer knows the request; it has been restarted"))
            return
        result = response.result
        self._append(result.text.encode("utf-8")[self._received_bytes :].decode("utf-8", "replace"))
        if result.error_code:
            self.fail(RefusedError(result.error_code, result.error, result.text))
        else:
            self._end(_answer_of(result), None)

    def _append(self, text: str) -> None:
        with self._lock:
            if not text or self.done():
                return
            self._texts.put(text)
        self._received_bytes += len(text.encode("utf-8"))
        if self._on_text is not None:
            try:
                self._on_text(text)
            except BaseException as error:  # SystemExit too would end the client's thread
                self._on_text = None
                self._spinner.node.get_logger().warning(f"on_text failed and is not called again: {error!r}")

    # Called on any thread

    def fail(self, error: ClientError) -> None:
        """End with an error, unless the request has ended."""
        self._end(None, error)

    def _end(self, answer: Answer | None, error: ClientError | None) -> None:
        with self._lock:
            if self.done():
                return
            self._answer, self._error = answer, error
            self._done.set()
            self._texts.put(None)
        self._on_end(self)


def refuse_to_block(spinner: Spinner, what: str) -> None:
    """Raise ClientError on the client's own thread: it would wait for messages that it must receive."""
    if spinner.is_current_thread():
        raise ClientError(
            f"{what} would block forever inside on_text, which runs on the client's own thread; call it on "
            "another thread, or call `start` and `cancel`, which do not block"
        )


def _answer_of(result: Any) -> Answer:
    stats = result.stats
    return Answer(
        text=result.text,
        finish_reason=result.finish_reason,
        usage=Usage(**{field.name: getattr(stats, field.name) for field in fields(Usage)}),
        timing=Timing(**{field.name: getattr(stats, field.name) for field in fields(Timing)}),
    )
