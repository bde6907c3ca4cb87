"""The service `count_tokens`: what a prompt would take."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from edgegpt_msgs.srv import CountTokens
from rclpy.node import Node

from edgegpt.errors import EdgeGPTError, EngineError, NotActiveError, OverloadedError, first_line
from edgegpt_ros.convert import code_of, refuse_nul
from edgegpt_ros.deferred import create_deferred_service
from edgegpt_ros.requests import Requests
from edgegpt_ros.wire import wire

# Requests that wait or are at work; each holds its text.
DEPTH: Final = 8


@dataclass(eq=False)
class _Count:
    request: Any
    respond: Callable[[Any], None]


class CountTokensService:
    """Counts one after another on a thread of its own, as a megabyte of text takes a second."""

    def __init__(self, node: Node, requests: Requests) -> None:
        self._logger = node.get_logger()
        self._requests = requests
        self._open: deque[_Count] = deque()  # not answered yet; the first is at work
        self._changed = threading.Condition()  # guards it
        threading.Thread(target=self._work, name="edgegpt-count", daemon=True).start()
        create_deferred_service(node, CountTokens, "count_tokens", self._begin)

    def refuse_all(self) -> None:
        """Answer all at once, the one at work too, after the node has left the state active."""
        with self._changed:
            counts = list(self._open)
            self._open.clear()
        for count in counts:
            self._respond(count, _refusal(NotActiveError("the node left the state active before the count")))

    def _begin(self, request: Any, respond: Callable[[Any], None]) -> None:
        count = _Count(request, respond)
        try:
            self._requests.active_server()
            with self._changed:
                if len(self._open) >= DEPTH:
                    raise OverloadedError(
                        f"{len(self._open)} texts wait to be counted already; try again later"
                    )
                self._open.append(count)
                self._changed.notify()
        except EdgeGPTError as error:
            self._respond(count, _refusal(error))

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._open)
                count = self._open[0]
            answer = self._answer(count.request)
            with self._changed:
                is_open = bool(self._open) and self._open[0] is count
                if is_open:
                    self._open.popleft()
            if is_open:  # else it was refused meanwhile
                self._respond(count, answer)
            del count  # and its text

    def _answer(self, request: Any) -> Any:
        response = CountTokens.Response()
        try:
            server = self._requests.active_server()
            refuse_nul("prompt", request.prompt)
            for name, value in vars(server.count_tokens(request.prompt, session=request.session)).items():
                setattr(response, name, value)
        except EdgeGPTError as error:
            return _refusal(error)
        except Exception as error:
            return _refusal(EngineError(f"the request failed: {first_line(error)}"))
        return response

    def _respond(self, count: _Count, response: Any) -> None:
        try:
            count.respond(response)
        except Exception as error:  # the client may be gone
            self._logger.warning(f"a response of `count_tokens` was not sent: {error!r}")


def _refusal(error: EdgeGPTError) -> Any:
    return CountTokens.Response(error_code=code_of(error), error=wire(str(error)))
