"""Group the text chunks of an answer by time and send them as TokenChunk messages."""

from collections.abc import Callable
from time import perf_counter

from edgegpt_msgs.msg import TokenChunk

from edgegpt.runtime import TextChunk
from edgegpt_ros.convert import ros_text


class ChunkStream:
    """Sends at most one message per chunk_ms; `end` sends the rest. One thread at a time may call it."""

    def __init__(
        self, request_id: str, send: Callable[[TokenChunk], None], chunk_ms: float, *, at_once: bool
    ) -> None:
        """Begin with index 0.

        Args:
            request_id: id of the request, part of each message.
            send: sends one message.
            chunk_ms: minimum time between two messages, in milliseconds.
            at_once: whether the first chunk is sent immediately, or after chunk_ms.
        """
        self._request_id = request_id
        self._send = send
        self._seconds = chunk_ms / 1000
        self._next = 0.0 if at_once else perf_counter() + self._seconds
        self._index = 0
        self._byte_offset = 0
        self._texts: list[str] = []

    def add(self, chunk: TextChunk) -> None:
        """Send the text now, or keep it for the next message."""
        self._texts.append(ros_text(chunk.text))
        now = perf_counter()
        if now >= self._next:
            self._next = now + self._seconds
            self._flush(last=False)

    def end(self) -> None:
        """Send the last message, whose text is empty if all text has been sent."""
        self._flush(last=True)

    def _flush(self, *, last: bool) -> None:
        text = "".join(self._texts)
        self._texts.clear()
        self._send(
            TokenChunk(
                request_id=self._request_id,
                index=self._index,
                byte_offset=self._byte_offset,
                text=text,
                last=last,
            )
        )
        self._index += 1
        self._byte_offset += len(text.encode("utf-8"))
