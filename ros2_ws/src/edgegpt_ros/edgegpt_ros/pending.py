"""A request on its way: whoever sent it waits for the answer, watches it grow, or cancels it."""

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final
from uuid import uuid4

from action_msgs.msg import GoalStatus
from edgegpt_msgs.msg import TokenChunk

from edgegpt_ros.client_answer import Answer, ClientError, NoServerError, answer_of
from edgegpt_ros.own_thread import OwnThread


class Pending:
    """A request on its way. Any thread may wait for it; the client's own thread feeds it.

    Attributes:
        request_id: of its chunks on the topic `tokens`.
    """

    def __init__(
        self,
        thread: OwnThread,
        on_text: Callable[[str], object] | None,
        ask_to_cancel: Callable[["Pending"], None],
        on_end: Callable[["Pending"], None],
    ) -> None:
        """`ask_to_cancel` tells the node, on any thread; `on_end` is called once."""
        self.uuid: Final = uuid4()
        self.request_id: Final = self.uuid.hex
        self._thread = thread
        self._on_text = on_text
        self._ask_to_cancel = ask_to_cancel
        self._on_end = on_end
        self._texts: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._sent_bytes = 0  # of the answer, given out; only the client's thread counts
        self._next_index = 0
        self._lock = threading.Lock()  # guards what follows; nothing that others wrote is called under it
        self._done = threading.Event()
        self._answer: Answer | None = None
        self._error: ClientError | None = None
        self._accepted = False
        self._cancelled = False

    def result(self, timeout_s: float | None = None) -> Answer:
        """Wait for the answer.

        Raises:
            TimeoutError: timeout_s have passed; the request goes on, `cancel` ends it.
            RefusedError: the node has no whole answer.
            NoServerError: there is no node, or it is gone.
            ClientError: inside on_text, where nobody may wait.
        """
        if not self.done():
            self._thread.refuse_to_wait("result")
        if not self._done.wait(None if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX)):
            raise TimeoutError(f"no answer within {timeout_s} s")
        if self._error is not None:
            raise self._error
        assert self._answer is not None
        return self._answer

    def done(self) -> bool:
        """Whether `result` returns at once."""
        return self._done.is_set()

    def cancel(self) -> None:
        """Ask the node to end the request; the result is then what there was, and `cancelled`."""
        with self._lock:
            self._cancelled = True
            known = self._accepted and not self.done()
        if known:  # a node that does not know the goal yet would not hear of it
            self._ask_to_cancel(self)

    def __iter__(self) -> Iterator[str]:
        """The answer's text while it grows; it joins to the whole. Raises as `result` at the end."""
        if not self.done():
            self._thread.refuse_to_wait("the stream")
        while (text := self._texts.get()) is not None:
            yield text
        self._texts.put(None)  # for whoever iterates again
        self.result(0)

    # Called on the client's thread

    def guarded(self, step: Callable[..., None], *arguments: Any) -> None:
        """Take a step; whatever goes wrong in it ends the request, so that nobody waits for ever."""
        try:
            step(*arguments)
        except Exception as error:
            self.fail(ClientError(f"the client failed: {error!r}"))

    def accepted(self) -> None:
        """The node knows the goal."""
        with self._lock:
            self._accepted = True
            cancelled = self._cancelled
        if cancelled:
            self._ask_to_cancel(self)

    def chunk(self, chunk: TokenChunk) -> None:
        """A part of the answer came."""
        # Behind a gap nothing more is given out: the result holds it all.
        if chunk.index == self._next_index and chunk.byte_offset == self._sent_bytes:
            self._next_index += 1
            self._give(chunk.text)

    def finish(self, response: Any) -> None:
        """The result came."""
        if response.status == GoalStatus.STATUS_UNKNOWN:  # it comes with an empty result
            self.fail(NoServerError("the node no longer knows the request; it was restarted meanwhile"))
            return
        self._give(response.result.text.encode("utf-8")[self._sent_bytes :].decode("utf-8", "replace"))
        try:
            answer = answer_of(response.result)
        except ClientError as error:
            self.fail(error)
        else:
            self._end(answer, None)

    def _give(self, text: str) -> None:
        with self._lock:
            if not text or self.done():
                return
            self._texts.put(text)
        self._sent_bytes += len(text.encode("utf-8"))
        if self._on_text is not None:
            try:
                self._on_text(text)
            except BaseException as error:  # it must not cost the answer; SystemExit would end the thread
                self._on_text = None
                self._thread.node.get_logger().warning(f"on_text failed and is not called again: {error!r}")

    # Called on any thread

    def fail(self, error: ClientError) -> None:
        """End without an answer, unless there is one."""
        self._end(None, error)

    def _end(self, answer: Answer | None, error: ClientError | None) -> None:
        with self._lock:
            if self.done():
                return
            self._answer, self._error = answer, error
            self._done.set()
            self._texts.put(None)
        self._on_end(self)
