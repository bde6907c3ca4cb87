"""The service `count_tokens`: what a prompt would take."""

from typing import Any

from edgegpt_msgs.srv import CountTokens
from rclpy.node import Node

from edgegpt.errors import EdgeGPTError
from edgegpt_ros.convert import code_of, refuse_nul
from edgegpt_ros.requests import Requests
from edgegpt_ros.wire import wire


def open_count_tokens(node: Node, requests: Requests) -> None:
    """Serve `count_tokens`."""

    def count(request: Any, response: Any) -> Any:
        try:
            refuse_nul("prompt", request.prompt)
            counted = requests.active_server().count_tokens(request.prompt, session=request.session)
        except EdgeGPTError as error:
            response.error_code, response.error = code_of(error), wire(str(error))
            return response
        for name, value in vars(counted).items():
            setattr(response, name, value)
        return response

    node.create_service(CountTokens, "count_tokens", count)
