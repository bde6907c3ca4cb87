"""The executable `generator`: one node, one executor thread, and an end within two seconds of a signal."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence


def main(args: Sequence[str] | None = None) -> None:
    """Serve until SIGINT or SIGTERM."""
    # rclpy and onnxruntime take half a second to import, and until there is a node there is nothing to
    # end in order.
    _on_signal(lambda: os._exit(0))
    sys.exit(serve(args))


def serve(args: Sequence[str] | None) -> int:
    """Run the node until a signal; the process's exit code."""
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.signals import SignalHandlerOptions

    from edgegpt_ros.node import GeneratorNode

    # The engine thread must not wait 5 ms, Python's default, for a busy executor thread, nor the other
    # way round.
    sys.setswitchinterval(0.0005)
    try:
        # Not rclpy's own handlers: they shut the context down, and with it the way to tell the clients.
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
        node = GeneratorNode()
    except Exception as error:
        print(f"edgegpt cannot start: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    stop = threading.Event()
    _on_signal(stop.set)
    # One thread: nothing here waits for the model, and a second one costs a third more latency.
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    executor.create_task(node.autostart)
    end = threading.Event()
    thread = threading.Thread(target=_spin, args=(executor, end, node), name="edgegpt-executor", daemon=True)
    thread.start()
    stop.wait()

    node.close()
    for _ in range(3):  # what ended by that tells its clients in tasks, which begin further tasks
        done = threading.Event()
        executor.create_task(done.set)
        done.wait(0.2)
    end.set()
    executor.create_task(lambda: None)  # spin_once returns after work only, not when merely woken
    thread.join(0.5)
    if thread.is_alive():  # it loads a model, which nothing can interrupt
        sys.stdout.flush()
        os._exit(0)
    executor.shutdown(0)
    node.destroy_node()
    rclpy.shutdown()
    return 0


def _on_signal(do: Callable[[], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: do())


def _spin(executor, end: threading.Event, node) -> None:  # type: ignore[no-untyped-def]
    """Spin, also after an exception: it ends rclpy's own spin, but no request may end the node."""
    while not end.is_set():
        try:
            executor.spin_once()
        except Exception as error:
            if end.is_set():
                return
            node.get_logger().error(f"a callback failed: {error!r}")
