"""A node spun by its own thread, so that every other thread may block on what it receives."""

import threading
from collections.abc import Callable
from typing import Any

from rclpy.executors import ExternalShutdownException, ShutdownException, SingleThreadedExecutor
from rclpy.node import Node


class Spinner:
    """Spins a small node until `stop`, or until its context is shut down.

    Attributes:
        node: the node that is spun.
        ended: why the thread has ended; empty while it runs.
    """

    def __init__(self, parent: Node, name: str, on_end: Callable[[str], None]) -> None:
        """Create a node in the namespace and context of another one; `start` begins to spin it.

        Args:
            parent: the node whose namespace and context are used.
            name: name of the new node.
            on_end: called with `ended`, once or twice.
        """
        namespace = parent.get_namespace()
        self.node = Node(
            name,
            namespace=namespace,
            context=parent.context,
            # Without these the parent's own remappings of name and namespace would apply.
            cli_args=["--ros-args", "-r", f"__node:={name}", "-r", f"__ns:={namespace}"],
            start_parameter_services=False,
            enable_rosout=False,
        )
        self.ended = ""
        self._on_end = on_end
        self._stopped = False
        self._lock = threading.Lock()  # guards _stopped: an executor that was shut down takes no tasks
        self._executor = SingleThreadedExecutor(context=parent.context)
        self._executor.add_node(self.node)
        self._thread = threading.Thread(target=self._spin, name=name, daemon=True)

    def start(self) -> None:
        """Begin to spin."""
        self._thread.start()

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function on the thread; does nothing after `stop`."""
        with self._lock:
            if not self._stopped:
                self._executor.create_task(function, *arguments)

    def is_current_thread(self) -> bool:
        """Return whether the caller runs on this thread, where blocking would never end."""
        return threading.current_thread() is self._thread

    def stop(self) -> bool:
        """End the thread; the caller destroys the node, after the entities that it has created.

        Returns:
            False where `stop` was called before.
        """
        self.ended = self.ended or "the client was closed"
        self.call(lambda: None)  # spin_once returns after a task, not when it is only woken
        self._thread.join(2.0)
        with self._lock:
            if self._stopped:
                return False
            self._stopped = True
        self._executor.shutdown(0)
        self._on_end(self.ended)
        return True

    def _spin(self) -> None:
        while not self.ended and self.node.context.ok():
            try:
                self._executor.spin_once()
            except (ExternalShutdownException, ShutdownException):
                break
            except Exception as error:
                self.node.get_logger().error(f"a callback of the client failed: {error!r}")
        self.ended = self.ended or "the client's context was shut down"
        self._on_end(self.ended)
