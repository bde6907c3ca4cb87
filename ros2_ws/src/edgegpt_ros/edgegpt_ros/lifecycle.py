"""Run the transitions of a lifecycle node on threads, one at a time, and refuse impossible ones."""

import threading
from collections.abc import Callable
from typing import Any, Final

from lifecycle_msgs.srv import ChangeState
from rclpy.lifecycle import LifecycleNode

from edgegpt.errors import first_line
from edgegpt_ros.deferred_reply import defer

# A transition whose reply has been sent may not have released the lock yet.
_SETTLE_S: Final = 0.1


class Transitions:
    """Runs the transitions of a node one at a time, each on a thread of its own.

    A transition may take as long as loading a model, and the executor has to answer requests meanwhile.
    One that is requested during another gets `success: false`, and so does one that the state does not
    have: rclpy raises an exception in the service's callback then, which ends the executor's spin and
    leaves the client without a reply (ros2/rclpy#1209).

    Attributes:
        closed: whether all further transitions are refused.
    """

    def __init__(self, node: LifecycleNode) -> None:
        """Take over the service `change_state`."""
        self._logger = node.get_logger()
        self._running = threading.Lock()  # held during a transition, and for good after `close`
        self.closed = False
        service = next(s for s in node.services if s.srv_type is ChangeState)
        change = service.callback

        def begin(request: Any, respond: Callable[[Any], None]) -> None:
            self.begin(
                lambda: change(request, ChangeState.Response()).success,
                lambda success: respond(ChangeState.Response(success=success)),
            )

        defer(service, begin)

    def begin(
        self, transition: Callable[[], bool], on_end: Callable[[bool], object] = lambda success: None
    ) -> None:
        """Run a transition on a new thread, and call on_end(success) there."""
        arguments = (transition, on_end)
        threading.Thread(target=self._run, args=arguments, name="edgegpt-transition", daemon=True).start()

    def close(self, timeout_s: float) -> bool:
        """Refuse all further transitions; return whether the running one, if any, ended within timeout_s."""
        self.closed = True
        return self._running.acquire(timeout=timeout_s)

    def _run(self, transition: Callable[[], bool], on_end: Callable[[bool], object]) -> None:
        success = False
        try:
            if not self._running.acquire(timeout=_SETTLE_S):
                reason = "the node is shutting down" if self.closed else "another one is running"
                self._logger.warning(f"transition refused: {reason}")
            else:
                try:
                    success = transition()
                finally:
                    self._running.release()
        except Exception as error:
            self._logger.warning(f"transition refused: {first_line(error)}")
        try:
            on_end(success)
        except Exception as error:  # the client may have gone
            self._logger.warning(f"a response of `change_state` was not sent: {error!r}")
