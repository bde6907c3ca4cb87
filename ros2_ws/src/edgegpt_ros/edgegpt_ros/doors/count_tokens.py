"""The service `count_tokens`: what a prompt would take."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from edgegpt_msgs.srv import CountTokens
from rclpy.node import Node

from edgegpt.errors import EdgeGPTError, EngineError
from edgegpt.short_cause import short_cause
from edgegpt_ros.convert import code_of, refuse_nul
from edgegpt_ros.deferred import create_deferred_service
from edgegpt_ros.requests import Requests
from edgegpt_ros.wire import wire


class CountTokensService:
    """Counts on a thread of its own, as a megabyte of text takes a second."""

    def __init__(self, node: Node, requests: Requests) -> None:
        self._node = node
        self._requests = requests
        self._pool = ThreadPoolExecutor(1, "edgegpt-count")
        create_deferred_service(node, CountTokens, "count_tokens", self._begin)

    def close(self) -> None:
        """Count no more; requests that wait get no answer."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, request: Any, respond: Callable[[Any], None]) -> None:
        self._pool.submit(self._answer, request, respond)

    def _answer(self, request: Any, respond: Callable[[Any], None]) -> None:
        response = CountTokens.Response()
        try:
            try:
                self._count(request, response)
            except Exception as error:
                if not isinstance(error, EdgeGPTError):
                    error = EngineError(f"the request failed: {short_cause(error)}")
                response.error_code, response.error = code_of(error), wire(str(error))
            respond(response)
        except Exception as error:  # the client may be gone
            self._node.get_logger().warning(f"a response of `count_tokens` was not sent: {error!r}")

    def _count(self, request: Any, response: Any) -> None:
        server = self._requests.active_server()
        refuse_nul("prompt", request.prompt)
        for name, value in vars(server.count_tokens(request.prompt, session=request.session)).items():
            setattr(response, name, value)
