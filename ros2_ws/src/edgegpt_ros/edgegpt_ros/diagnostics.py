"""Publish the node's status on /diagnostics."""

from collections.abc import Callable

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from edgegpt.serving import ServerStatistics
from edgegpt.system import rss_bytes
from edgegpt_ros.convert import ros_text
from edgegpt_ros.qos import create_publisher
from edgegpt_ros.requests import Requests

PERIOD_S = 1.0


class Diagnostics:
    """Publishes one status per second.

    Attributes:
        hardware_id: name of the model; empty while none is loaded.
    """

    def __init__(self, node: Node, requests: Requests, problem: Callable[[], str]) -> None:
        """Begin to publish; `problem` returns why the node cannot be configured, or an empty string."""
        self._node = node
        self._requests = requests
        self._misses = 0  # deadline misses up to the last status
        self._problem = problem
        self.hardware_id = ""
        self._publisher = create_publisher(node, DiagnosticArray, "/diagnostics", 10)
        node.create_timer(PERIOD_S, self._publish)

    def _publish(self) -> None:
        server = self._requests.server
        statistics = None if server is None else server.statistics()
        status = DiagnosticStatus(
            name=f"{self._node.get_fully_qualified_name().lstrip('/')}: generation",
            hardware_id=self.hardware_id,
            values=[KeyValue(key=key, value=value) for key, value in self._values(statistics).items()],
        )
        misses = 0 if statistics is None else statistics.deadline_misses
        if problem := self._problem():
            status.level, status.message = DiagnosticStatus.ERROR, ros_text(problem)
        elif statistics is None or statistics.state != "active":
            status.level, status.message = DiagnosticStatus.WARN, f"the node is {self._requests.state}"
        elif misses > self._misses:
            status.level = DiagnosticStatus.WARN
            status.message = f"{misses - self._misses} deadlines missed since the last status"
        else:
            status.level, status.message = DiagnosticStatus.OK, "busy" if statistics.busy else "idle"
        self._misses = misses
        array = DiagnosticArray(status=[status])
        array.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(array)

    def _values(self, statistics: ServerStatistics | None) -> dict[str, str]:
        values = {"state": self._requests.state, "rss_mb": f"{(rss_bytes() or 0) / 1e6:.1f}"}
        if statistics is not None:
            values |= {
                "work": "busy" if statistics.busy else "idle",
                "queue": str(statistics.waiting),
                "sessions": str(statistics.sessions),
                "session_bytes": str(statistics.session_bytes),
                **{f"requests.{name}": str(count) for name, count in statistics.outcomes.items()},
                "deadline_misses": str(statistics.deadline_misses),
            }
            for name in ("ttft_p50_ms", "ttft_p99_ms", "token_p50_ms", "token_p99_ms"):
                values[name] = f"{getattr(statistics, name):.3f}"
        return values
