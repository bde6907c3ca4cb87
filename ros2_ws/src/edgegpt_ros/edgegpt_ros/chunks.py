"""The pieces of an answer as TokenChunks, grouped by time."""

from collections.abc import Callable
from time import perf_counter

from edgegpt_msgs.msg import TokenChunk

from edgegpt.runtime import TextChunk
from edgegpt_ros.wire import wire


class ChunkStream:
    """Sends at most one chunk in chunk_ms, and the first piece at once if it shall; `end` sends what is left.

    It is called by one thread at a time.
    """

    def __init__(
        self, request_id: str, send: Callable[[TokenChunk], None], chunk_ms: float, *, at_once: bool
    ) -> None:
        self._request_id = request_id
        self._send = send
        self._seconds = chunk_ms / 1000
        self._next = 0.0 if at_once else perf_counter() + self._seconds
        self._index = 0
        self._byte_offset = 0
        self._texts: list[str] = []

    def add(self, piece: TextChunk) -> None:
        """Send the piece, or keep it for the next chunk."""
        self._texts.append(wire(piece.text))
        now = perf_counter()
        if now >= self._next:
            self._next = now + self._seconds
            self._flush(last=False)

    def end(self) -> None:
        """Send the last chunk, which is empty when all the text has been sent."""
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
