"""The executable `generator`: one node, one executor thread, and an end within two seconds of a signal."""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from time import monotonic, sleep
from typing import Any, Final

from edgegpt_ros.beginning import early_exit

_USAGE: Final = """\
usage: generator [--ros-args [-p NAME:=VALUE] [-r FROM:=TO] [--params-file FILE.yaml] ...]

The lifecycle node `edgegpt`: answers prompts with the model in the parameter `model`.

  ros2 run edgegpt_ros generator --ros-args -p model:=rover.onnx -r __ns:=/robot1

All parameters are in the README of edgegpt_ros, and `ros2 param describe /edgegpt NAME` explains one."""

# What the end may take: for the work, for telling the clients, and for the executor's last callback.
_END_S: Final = 0.8
_TELL_S: Final = 0.4
_LEAVE_S: Final = 0.2
# DDS takes back with the node what a busy client has not fetched yet.
_LINGER_S: Final = 0.15


def main(args: Sequence[str] | None = None) -> None:
    """Serve until SIGINT or SIGTERM."""
    # rclpy and onnxruntime take half a second to import, and until there is a node there is nothing to
    # end in order.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
    code = early_exit("edgegpt", _USAGE, args)
    if code is None:
        code = serve(args)
    # Python's own end puts the default back in the place of a handler, and a second Ctrl-C would kill.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sys.exit(code)


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
    stop = _signals()
    # One thread: nothing here waits for the model, and a second one costs a third more latency.
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    end = threading.Event()
    thread = threading.Thread(target=_spin, args=(executor, end, node), name="edgegpt-executor", daemon=True)
    thread.start()
    node.autostart()
    os.read(stop, 1)

    ended = node.close(_END_S)
    until = monotonic() + _TELL_S
    for _ in range(3):  # what ended by that tells its clients in tasks, which begin further tasks
        done = threading.Event()
        executor.create_task(done.set)
        done.wait(max(0.0, until - monotonic()))
    sleep(_LINGER_S)
    end.set()
    executor.create_task(lambda: None)  # spin_once returns after work only, not when merely woken
    thread.join(_LEAVE_S)
    if not ended or thread.is_alive():
        node.get_logger().warning("the node ends while a call of the model, or its loading, is under way")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # nothing can interrupt it, and Python's own end would wait for it or crash
    # What came too late to be begun is dropped; Python warns of each kind of such a task, as of a mistake.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    executor.shutdown(0)
    node.destroy_node()
    rclpy.shutdown()
    return 0


def _signals() -> int:
    """A file descriptor from which a byte can be read for each signal to end.

    Python runs a handler on the main thread between any two lines, also while that thread holds a lock;
    so it must do nothing, and the interpreter itself writes the byte.
    """
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    return read


def _spin(executor: Any, end: threading.Event, node: Any) -> None:
    """Spin, also after an exception: it ends rclpy's own spin, but no request may end the node."""
    while not end.is_set():
        try:
            executor.spin_once()
        except Exception as error:
            if end.is_set():
                return
            node.get_logger().error(f"a callback failed: {error!r}")
