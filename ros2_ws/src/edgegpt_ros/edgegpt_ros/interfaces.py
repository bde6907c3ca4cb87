"""The node's ROS interfaces: the action `generate`, two services, and the topics `prompt` and `response`.

Each takes its requests, submits them, and sends the outcome as its own message.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from edgegpt_msgs.action import Generate
from edgegpt_msgs.msg import TokenChunk
from edgegpt_msgs.srv import Complete, CountTokens
from rclpy.action import CancelResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.node import Node
from std_msgs.msg import String

from edgegpt.errors import EdgeGPTError, EngineError, NotActiveError, OverloadedError, first_line
from edgegpt.serving import Outcome, RequestHandle
from edgegpt_ros.convert import code_of, fill, refuse_nul, ros_text
from edgegpt_ros.deferred_reply import DeferredActionServer, create_deferred_service
from edgegpt_ros.qos import BURST, create_publisher, create_subscription
from edgegpt_ros.requests import Requests

# rclpy's default of 15 minutes would hold thousands of results in memory.
RESULT_TIMEOUT_S: Final = 10

# Requests of count_tokens that wait or run; each holds its text in memory.
COUNT_DEPTH: Final = 8


class GenerateAction:
    """The action `generate`: an answer that can be streamed and cancelled.

    Every goal is accepted, because only a result has room for the reason of a refusal.
    """

    def __init__(self, node: Node, requests: Requests) -> None:
        """Serve the action."""
        self._requests = requests
        self._handles: dict[bytes, RequestHandle] = {}  # handles of goals that have not ended
        self._server = DeferredActionServer(
            node,
            Generate,
            "generate",
            self._begin,
            cancel_callback=self._cancel,
            goal_service_qos_profile=BURST,
            cancel_service_qos_profile=BURST,
            result_service_qos_profile=BURST,
            result_timeout=RESULT_TIMEOUT_S,
        )

    def destroy(self) -> None:
        """Stop serving; destroying the node does not destroy an action server."""
        self._server.destroy()

    def _begin(self, goal: ServerGoalHandle) -> None:
        key = bytes(goal.goal_id.uuid)

        def on_chunk(chunk: TokenChunk) -> None:
            goal.publish_feedback(Generate.Feedback(chunk=chunk))

        def on_end(outcome: Outcome) -> None:
            self._server.finish(goal, lambda goal: self._conclude(goal, outcome))

        handle = self._requests.begin(key.hex(), goal.request, on_end, on_chunk)
        # The outcome may be known already, but this thread runs _conclude only after this callback.
        if handle is not None:
            self._handles[key] = handle

    def _cancel(self, goal: ServerGoalHandle) -> CancelResponse:
        if (handle := self._handles.get(bytes(goal.goal_id.uuid))) is not None:
            handle.cancel()
        return CancelResponse.ACCEPT

    def _conclude(self, goal: ServerGoalHandle, outcome: Outcome) -> Any:
        self._handles.pop(bytes(goal.goal_id.uuid), None)
        if outcome.error is not None:
            goal.abort()
        elif outcome.reply.finish_reason == "cancelled" and goal.is_cancel_requested:
            goal.canceled()
        else:
            goal.succeed()
        return fill(Generate.Result(), outcome)


def serve_complete(node: Node, requests: Requests) -> None:
    """Serve `complete`, which returns the whole answer."""

    def begin(request: Any, respond: Callable[[Any], None]) -> None:
        def on_end(outcome: Outcome) -> None:
            try:
                respond(fill(Complete.Response(), outcome))
            except Exception as error:  # the client may have gone
                node.get_logger().warning(f"a response of `complete` was not sent: {error!r}")

        requests.begin(uuid4().hex, request, on_end)

    create_deferred_service(node, Complete, "complete", begin)


def serve_prompt(node: Node, requests: Requests) -> None:
    """Answer each message on `prompt` with one on `response`.

    The response is empty when there is no whole answer: a String has no field for an error, and a reader
    must not take an error, or half a command, for the answer. The log holds the reason.
    """
    responses = create_publisher(node, String, "response", BURST)

    def on_end(outcome: Outcome) -> None:
        if outcome.error is not None:
            node.get_logger().warning(f"a prompt has no answer: {ros_text(str(outcome.error))}")
        responses.publish(String(data="" if outcome.error is not None else ros_text(outcome.reply.text)))

    def on_prompt(message: String) -> None:
        requests.begin(uuid4().hex, Complete.Request(prompt=message.data), on_end)

    create_subscription(node, String, "prompt", on_prompt, BURST)


@dataclass(eq=False)
class _Count:
    request: Any
    respond: Callable[[Any], None]


class CountTokensService:
    """The service `count_tokens`: tokens of a prompt and predicted times, without answering it.

    Requests are counted one after another on a separate thread, as a megabyte of text takes a second.
    """

    def __init__(self, node: Node, requests: Requests) -> None:
        """Serve `count_tokens`."""
        self._logger = node.get_logger()
        self._requests = requests
        self._open: deque[_Count] = deque()  # not answered yet; the first one is running
        self._changed = threading.Condition()  # guards _open
        threading.Thread(target=self._work, name="edgegpt-count", daemon=True).start()
        create_deferred_service(node, CountTokens, "count_tokens", self._begin)

    def refuse_all(self) -> None:
        """Answer all requests with NOT_ACTIVE, the running one too."""
        with self._changed:
            counts = list(self._open)
            self._open.clear()
        for count in counts:
            self._respond(count, _no_count(NotActiveError("the node left the state active before the count")))

    def _begin(self, request: Any, respond: Callable[[Any], None]) -> None:
        count = _Count(request, respond)
        try:
            self._requests.active_server()
            with self._changed:
                if len(self._open) >= COUNT_DEPTH:
                    raise OverloadedError(
                        f"{len(self._open)} texts are waiting to be counted already; try again later"
                    )
                self._open.append(count)
                self._changed.notify()
        except EdgeGPTError as error:
            self._respond(count, _no_count(error))

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._open)
                count = self._open[0]
            response = self._count(count.request)
            with self._changed:
                is_open = bool(self._open) and self._open[0] is count
                if is_open:
                    self._open.popleft()
            if is_open:  # otherwise refuse_all has answered it
                self._respond(count, response)
            del count  # frees the text while this thread waits

    def _count(self, request: Any) -> Any:
        response = CountTokens.Response()
        try:
            server = self._requests.active_server()
            refuse_nul("prompt", request.prompt)
            for name, value in vars(server.count_tokens(request.prompt, session=request.session)).items():
                setattr(response, name, value)
        except EdgeGPTError as error:
            return _no_count(error)
        except Exception as error:
            return _no_count(EngineError(f"unexpected error in count_tokens: {first_line(error)}"))
        return response

    def _respond(self, count: _Count, response: Any) -> None:
        try:
            count.respond(response)
        except Exception as error:  # the client may have gone
            self._logger.warning(f"a response of `count_tokens` was not sent: {error!r}")


def _no_count(error: EdgeGPTError) -> Any:
    return CountTokens.Response(error_code=code_of(error), error=ros_text(str(error)))
