"""The action `generate`: an answer that can be watched and cancelled."""

from typing import Any, Final

from edgegpt_msgs.action import Generate
from edgegpt_msgs.msg import TokenChunk
from rclpy.action import CancelResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.node import Node

from edgegpt.serving import RequestHandle
from edgegpt_ros.convert import Answer
from edgegpt_ros.deferred import DeferredActionServer
from edgegpt_ros.qos import BURST
from edgegpt_ros.requests import Requests

# rclpy's 15 minutes would hold thousands of results in memory.
RESULT_TIMEOUT_S: Final = 10


class GenerateAction:
    """Accepts every goal, as only a result has room for a sentence that says why not."""

    def __init__(self, node: Node, requests: Requests) -> None:
        self._requests = requests
        self._logger = node.get_logger()
        self._tickets: dict[bytes, RequestHandle] = {}  # of goals that have not ended
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
        """Close the door; destroying the node does not."""
        self._server.destroy()

    def _begin(self, goal: ServerGoalHandle) -> None:
        key = bytes(goal.goal_id.uuid)

        def on_chunk(chunk: TokenChunk) -> None:
            goal.publish_feedback(Generate.Feedback(chunk=chunk))

        def on_end(answer: Answer) -> None:
            self._server.finish(goal, lambda goal: self._conclude(goal, answer))

        ticket = self._requests.begin(key.hex(), goal.request, on_end, on_chunk)
        # The answer may be here already, but the executor concludes it after this.
        if ticket is not None:
            self._tickets[key] = ticket

    def _cancel(self, goal: ServerGoalHandle) -> CancelResponse:
        if (ticket := self._tickets.get(bytes(goal.goal_id.uuid))) is not None:
            ticket.cancel()
        return CancelResponse.ACCEPT

    def _conclude(self, goal: ServerGoalHandle, answer: Answer) -> Any:
        self._tickets.pop(bytes(goal.goal_id.uuid), None)
        if answer.error_code:
            goal.abort()
        elif answer.finish_reason == "cancelled" and goal.is_cancel_requested:
            goal.canceled()
        else:
            goal.succeed()
        return answer.into(Generate.Result())
