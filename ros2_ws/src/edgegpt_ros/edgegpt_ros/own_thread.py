"""A small node beside another one, spun by a thread of its own, so that waiting is allowed on all others."""

import threading
from collections.abc import Callable
from typing import Any

from rclpy.executors import ExternalShutdownException, ShutdownException, SingleThreadedExecutor
from rclpy.node import Node

from edgegpt_ros.client_answer import ClientError


class OwnThread:
    """Spins until `close`, or until the context is shut down.

    Attributes:
        node: what is spun.
        over: why nothing is spun any more; empty while the thread works.
    """

    def __init__(self, beside: Node, name: str, on_over: Callable[[str], None]) -> None:
        """Make a node in the namespace and context of another; `start` begins to spin it.

        Args:
            beside: the other node.
            name: of the new one.
            on_over: called with `over` at the end, once or twice.
        """
        self.node = Node(
            name,
            namespace=beside.get_namespace(),
            context=beside.context,
            # A remapping of the other node's name is not meant for this one.
            cli_args=["--ros-args", "-r", f"__node:={name}", "-r", f"__ns:={beside.get_namespace()}"],
            start_parameter_services=False,
            enable_rosout=False,
        )
        self.over = ""
        self._on_over = on_over
        self._stopped = False
        self._lock = threading.Lock()  # guards it; a stopped executor takes no tasks
        self._executor = SingleThreadedExecutor(context=beside.context)
        self._executor.add_node(self.node)
        self._thread = threading.Thread(target=self._spin, name=name, daemon=True)

    def start(self) -> None:
        """Begin to spin."""
        self._thread.start()

    def do(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Have the thread call a function; nobody does after `stop`."""
        with self._lock:
            if not self._stopped:
                self._executor.create_task(function, *arguments)

    def refuse_to_wait(self, what: str) -> None:
        """Raise where waiting would be for ever, as nobody else brings what is waited for.

        Raises:
            ClientError: this is the thread itself.
        """
        if threading.current_thread() is self._thread:
            raise ClientError(
                f"{what} would wait for ever inside on_text, which runs on the thread that brings answers; "
                "call it on another thread, or `start` and `cancel`, which do not wait"
            )

    def stop(self) -> bool:
        """End the thread; whether nobody had. The node is for the caller to destroy, after what it owns."""
        self.over = self.over or "the client was closed"
        self.do(lambda: None)  # spin_once returns after work only, not when merely woken
        self._thread.join(2.0)
        with self._lock:
            if self._stopped:
                return False
            self._stopped = True
        self._executor.shutdown(0)
        self._on_over(self.over)
        return True

    def _spin(self) -> None:
        while not self.over and self.node.context.ok():
            try:
                self._executor.spin_once()
            except (ExternalShutdownException, ShutdownException):
                break
            except Exception as error:
                self.node.get_logger().error(f"a callback of the client failed: {error!r}")
        self.over = self.over or "the client's context was shut down"
        self._on_over(self.over)
