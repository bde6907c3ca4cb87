"""Submit a request to the server and send its reply; shared by all interfaces."""

from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

from edgegpt_msgs.msg import TokenChunk
from rclpy.impl.rcutils_logger import RcutilsLogger

from edgegpt.errors import EdgeGPTError, EngineError, NotActiveError, SamplingError, first_line
from edgegpt.runtime import SamplingParams
from edgegpt.serving import GenerationServer, Outcome, RequestHandle
from edgegpt_ros.chunks import ChunkStream
from edgegpt_ros.convert import params_of, refuse_nul, refuse_reserved, refused

# Advice by state of the life cycle; in every other state the node must be activated.
_ADVICE: Final = {
    "configuring": "wait until it is active",
    "shutting down": "start it again",
    "finalized": "start it again",
}


class Requests:
    """Takes requests from the interfaces and calls back with their outcomes.

    Attributes:
        server: the server that answers; None while no model is loaded.
        state: state of the node's life cycle, as in messages to users.
        own: values of the options that a request does not set.
        stream: whether an answer is streamed if the request leaves it open.
        chunk_ms: minimum time between two chunks of an answer, in milliseconds.
    """

    def __init__(self, publish: Callable[[TokenChunk], None], logger: RcutilsLogger) -> None:
        """Start without a server; `publish` sends a chunk to the topic `tokens`."""
        self.server: GenerationServer | None = None
        self.state = "unconfigured"
        self.own = SamplingParams()
        self.stream = True
        self.chunk_ms = 0.0
        self._publish = publish
        self._logger = logger

    def active_server(self) -> GenerationServer:
        """Return the server; raise NotActiveError when the node is in another state than active."""
        server, state = self.server, self.state
        if server is None or state != "active":
            advice = _ADVICE.get(state, "activate it")
            raise NotActiveError(f"the node is {state} and takes no requests; {advice}")
        return server

    def begin(
        self,
        request_id: str,
        request: Any,
        on_end: Callable[[Outcome], None],
        on_chunk: Callable[[TokenChunk], None] | None = None,
    ) -> RequestHandle | None:
        """Submit a request and return its handle, or None when it was refused.

        Args:
            request_id: id of the request, part of each chunk.
            request: a goal of Generate or a request of Complete.
            on_end: called once with the outcome, on the engine thread; at once when the request is refused.
            on_chunk: called with every chunk as well, unless the request turns streaming off. Without it only
                the topic `tokens` carries the chunks while the client waits for the whole answer: no chunk
                is sent before chunk_ms, and the last one after the answer, because each costs the engine
                thread at least 0.1 ms.
        """
        arrived = perf_counter()
        chunks: ChunkStream | None = None

        def send(chunk: TokenChunk) -> None:
            self._publish(chunk)
            if on_chunk is not None:
                on_chunk(chunk)

        def end_chunks() -> None:
            try:
                if chunks is not None:
                    chunks.end()
            except Exception as error:
                self._logger.warning(f"the last chunk of {request_id} was not sent: {error!r}")

        def end(outcome: Outcome) -> None:
            if on_chunk is not None:
                end_chunks()
                on_end(outcome)
            else:
                on_end(outcome)
                end_chunks()

        try:
            wanted = request.options.stream
            if wanted not in (-1, 0, 1):
                raise SamplingError(f"stream must be 1, 0, or -1 for the node's own, got {wanted}")
            if self.stream if wanted == -1 else wanted:
                chunks = ChunkStream(request_id, send, self.chunk_ms, at_once=on_chunk is not None)
            server = self.active_server()
            refuse_nul("prompt", request.prompt)
            refuse_nul("session", request.session)
            refuse_reserved(request.options)
            handle = server.submit(
                request.prompt,
                params_of(request.options, self.own),
                session=request.session,
                priority=request.options.priority,
                on_chunk=None if chunks is None else chunks.add,
                arrived=arrived,
            )
        except EdgeGPTError as error:
            end(refused(error))
            return None
        except Exception as error:
            self._logger.error(f"unexpected error in request {request_id}: {error!r}")
            end(refused(EngineError(f"unexpected error in the request: {first_line(error)}")))
            return None
        handle.add_done_callback(lambda handle: end(handle.outcome()))
        return handle
