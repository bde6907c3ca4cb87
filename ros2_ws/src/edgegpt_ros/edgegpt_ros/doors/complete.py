"""The service `complete`: the whole answer."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from edgegpt_msgs.srv import Complete
from rclpy.node import Node

from edgegpt_ros.convert import Answer
from edgegpt_ros.deferred import create_deferred_service
from edgegpt_ros.requests import Requests


def open_complete(node: Node, requests: Requests) -> None:
    """Serve `complete`."""

    def begin(request: Any, respond: Callable[[Any], None]) -> None:
        def on_end(answer: Answer) -> None:
            try:
                respond(answer.into(Complete.Response()))
            except Exception as error:  # the client may be gone
                node.get_logger().warning(f"a response of `complete` was not sent: {error!r}")

        requests.begin(uuid4().hex, request, on_end)

    create_deferred_service(node, Complete, "complete", begin)
