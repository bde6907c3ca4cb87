"""Services and actions whose reply is sent later, without a thread that waits for it.

rclpy offers coroutines for that, but its executor polls an unfinished one continuously and so keeps a core
busy; and a callback that blocks delays all others. Here one callback takes the request, and the thread that
has the answer sends it.
"""

from collections.abc import Callable
from typing import Any

from rclpy.action import ActionServer
from rclpy.action.server import ServerGoalHandle
from rclpy.node import Node
from rclpy.service import Service

from edgegpt_ros.qos import BURST


class DeferredActionServer(ActionServer):
    """An action server that calls `begin(goal)` for an accepted goal, which ends with `finish`."""

    def __init__(
        self,
        node: Node,
        action_type: Any,
        name: str,
        begin: Callable[[ServerGoalHandle], None],
        **options: Any,
    ) -> None:
        """Serve an action; `options` are those of ActionServer."""
        self._begin = begin
        super().__init__(node, action_type, name, lambda goal: action_type.Result(), **options)

    def notify_execute(self, goal: ServerGoalHandle, execute_callback: object) -> None:
        """Begin a goal; rclpy calls this once the goal is executing."""
        self._begin(goal)

    def finish(self, goal: ServerGoalHandle, conclude: Callable[[ServerGoalHandle], Any]) -> None:
        """Have the executor call conclude(goal), which ends it and returns its result; from any thread."""
        super().notify_execute(goal, conclude)


def create_deferred_service(
    node: Node, service_type: Any, name: str, begin: Callable[[Any, Callable[[Any], None]], None]
) -> None:
    """Create a service that calls `begin(request, respond)`; `respond(response)` may be called later."""
    service = node.create_service(service_type, name, lambda request, _: request, qos_profile=BURST)
    defer(service, begin)


def defer(service: Service, begin: Callable[[Any, Callable[[Any], None]], None]) -> None:
    """Make a service call `begin(request, respond)`; respond may be called once, from any thread."""
    send_now = service.send_response

    def send_response(request: Any, header: Any) -> None:
        begin(request, lambda response: send_now(response, header))

    service.callback = lambda request, _: request
    service.send_response = send_response
