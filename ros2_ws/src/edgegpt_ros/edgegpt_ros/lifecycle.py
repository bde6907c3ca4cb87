"""What rclpy leaves out of a managed node."""

from typing import Any

from lifecycle_msgs.srv import ChangeState
from rclpy.lifecycle import LifecycleNode


def refuse_invalid_transitions(node: LifecycleNode) -> None:
    """Answer a transition that the state does not have with `success: false`.

    rclpy raises from the service's callback, which ends the executor's spin and leaves the client
    without an answer (ros2/rclpy#1209).
    """
    service = next(s for s in node.services if s.srv_type is ChangeState)
    change = service.callback

    def callback(request: Any, response: Any) -> Any:
        try:
            return change(request, response)
        except Exception as error:
            node.get_logger().warning(f"transition refused: {' '.join(str(error).split())}")
            response.success = False
            return response

    service.callback = callback
