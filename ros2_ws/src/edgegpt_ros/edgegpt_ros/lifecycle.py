"""What rclpy leaves out of a managed node."""

import threading
from collections.abc import Callable
from typing import Any, Final

from lifecycle_msgs.srv import ChangeState
from rclpy.lifecycle import LifecycleNode

from edgegpt.errors import first_line
from edgegpt_ros.deferred import defer

# One that is over for its client may still be on its last lines.
_SETTLE_S: Final = 0.1


class Transitions:
    """Runs the transitions of a node one at a time, and none of them on an executor's thread.

    A transition may take as long as loading a model, and the executor has to answer the doors meanwhile.
    One that comes while another is under way is answered with `success: false`, and so is one that the
    state does not have: rclpy raises from the service's callback, which ends the executor's spin and
    leaves the client without an answer (ros2/rclpy#1209).

    Attributes:
        closed: whether there will be no more.
    """

    def __init__(self, node: LifecycleNode) -> None:
        """Take over the service `change_state`."""
        self._logger = node.get_logger()
        self._turn = threading.Lock()  # held by the one under way, and by none once it is closed
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
        self, transition: Callable[[], bool], tell: Callable[[bool], object] = lambda success: None
    ) -> None:
        """Run a transition on a thread of its own, and tell whether it succeeded, from there too."""
        arguments = (transition, tell)
        threading.Thread(target=self._run, args=arguments, name="edgegpt-transition", daemon=True).start()

    def close(self, timeout_s: float) -> bool:
        """Refuse all from now on; whether the one under way, if any, has ended within timeout_s."""
        self.closed = True
        return self._turn.acquire(timeout=timeout_s)

    def _run(self, transition: Callable[[], bool], tell: Callable[[bool], object]) -> None:
        success = False
        try:
            if not self._turn.acquire(timeout=_SETTLE_S):
                reason = "the node is shutting down" if self.closed else "another one is under way"
                self._logger.warning(f"transition refused: {reason}")
            else:
                try:
                    success = transition()
                finally:
                    self._turn.release()
        except Exception as error:
            self._logger.warning(f"transition refused: {first_line(error)}")
        try:
            tell(success)
        except Exception as error:  # the client may be gone
            self._logger.warning(f"a response of `change_state` was not sent: {error!r}")
