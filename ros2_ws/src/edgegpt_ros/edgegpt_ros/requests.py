"""From a door to the server and back: one way for all doors."""

from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

from edgegpt_msgs.msg import TokenChunk
from rclpy.impl.rcutils_logger import RcutilsLogger

from edgegpt.errors import EdgeGPTError, EngineError, NotActiveError, SamplingError, first_line
from edgegpt.runtime import SamplingParams
from edgegpt.serving import GenerationServer, RequestHandle
from edgegpt_ros.chunks import ChunkStream
from edgegpt_ros.convert import Answer, answer_of, params_of, refusal, refuse_constraints, refuse_nul

# A node in another state must be activated.
_WAY_OUT: Final = {
    "configuring": "wait until it is active",
    "shutting down": "start it again",
    "finalized": "start it again",
}


class Requests:
    """Takes requests from the doors and calls back with their answers.

    Attributes:
        server: that answers; None while no model is loaded.
        state: of the node's life cycle, as people call it.
        own: what a request gets that does not say otherwise.
        stream: whether to stream the answer to such a request.
        chunk_ms: at most one chunk in so many milliseconds.
    """

    def __init__(self, publish: Callable[[TokenChunk], None], logger: RcutilsLogger) -> None:
        """`publish` sends a chunk to the topic `tokens`."""
        self.server: GenerationServer | None = None
        self.state = "unconfigured"
        self.own = SamplingParams()
        self.stream = True
        self.chunk_ms = 0.0
        self._publish = publish
        self._logger = logger

    def active_server(self) -> GenerationServer:
        """The server.

        Raises:
            NotActiveError: the node is in another state than active.
        """
        server, state = self.server, self.state
        if server is None or state != "active":
            way_out = _WAY_OUT.get(state, "activate it")
            raise NotActiveError(f"the node is {state} and takes no requests; {way_out}")
        return server

    def begin(
        self,
        request_id: str,
        request: Any,
        on_end: Callable[[Answer], None],
        on_chunk: Callable[[TokenChunk], None] | None = None,
    ) -> RequestHandle | None:
        """Begin a request; its ticket, or None when it was refused.

        Args:
            request_id: of the chunks.
            request: a goal of Generate or a request of Complete.
            on_end: called once with the answer, on the engine thread, or at once when it was refused.
            on_chunk: called with every chunk too, unless the request wants no stream. Without it only the
                topic `tokens` gets them, and whoever asked waits for the answer alone: no chunk is sent
                before chunk_ms, and the last one behind the answer, as each costs the engine thread 0.1 ms
                and more.
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

        def end(answer: Answer) -> None:
            if on_chunk is not None:
                end_chunks()
                on_end(answer)
            else:
                on_end(answer)
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
            refuse_constraints(request.options)
            ticket = server.submit(
                request.prompt,
                params_of(request.options, self.own),
                session=request.session,
                priority=request.options.priority,
                on_chunk=None if chunks is None else chunks.add,
                arrived=arrived,
            )
        except EdgeGPTError as error:
            end(refusal(error))
            return None
        except Exception as error:
            self._logger.error(f"request {request_id} failed in a way that nobody expected: {error!r}")
            end(refusal(EngineError(f"the request failed: {first_line(error)}")))
            return None
        ticket.add_done_callback(lambda ticket: end(answer_of(ticket.outcome())))
        return ticket
