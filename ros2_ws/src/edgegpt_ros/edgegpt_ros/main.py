"""Executable `generator`: one node, one executor thread, and a shutdown within two seconds of a signal."""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, Final

_USAGE: Final = """\
usage: generator [--ros-args [-p NAME:=VALUE] [-r FROM:=TO] [--params-file FILE.yaml] ...]

The lifecycle node `edgegpt`: answers prompts with the model in the parameter `model`.

  ros2 run edgegpt_ros generator --ros-args -p model:=rover.onnx -r __ns:=/robot1

The README of edgegpt_ros lists all parameters; `ros2 param describe /edgegpt NAME` explains one."""

# Time limits at shutdown: for the running work, for replies to clients, for the executor's last callback.
_WORK_S: Final = 0.8
_REPLY_S: Final = 0.4
_LEAVE_S: Final = 0.2
# When the node ends, DDS withdraws replies that a busy client has not fetched yet.
_LINGER_S: Final = 0.15

# DDS derives port numbers from the domain, and those of domain 233 are above 65535. Fast DDS then ends the
# process instead of raising an error.
_LAST_DOMAIN: Final = 232


def main(args: Sequence[str] | None = None) -> None:
    """Serve until SIGINT or SIGTERM."""
    # Importing rclpy and onnxruntime takes half a second, and until the node exists nothing needs an
    # orderly end.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
    code = early_exit("edgegpt", _USAGE, args)
    if code is None:
        code = serve(args)
    # At its exit Python replaces a handler by the default, so a second Ctrl-C would kill the process.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sys.exit(code)


def early_exit(name: str, usage: str, args: Sequence[str] | None) -> int | None:
    """Answer --help and refuse a domain that would abort the process, before rclpy starts.

    Args:
        name: name of the program, for the error.
        usage: printed for `--help`.
        args: as in rclpy.init, the program's name first; None is sys.argv.

    Returns:
        The exit code, or None if the program can start.
    """
    arguments = list(sys.argv if args is None else args)[1:]
    if "--ros-args" in arguments:
        arguments = arguments[: arguments.index("--ros-args")]
    if "--help" in arguments or "-h" in arguments:
        print(usage)
        return 0
    with suppress(ValueError):  # rclpy refuses what is not a number
        domain = int(os.environ.get("ROS_DOMAIN_ID", "0"), 0)
        if not 0 <= domain <= _LAST_DOMAIN:
            message = f"ROS_DOMAIN_ID must be from 0 to {_LAST_DOMAIN}, got {domain}"
            print(f"{name} cannot start: {message}", file=sys.stderr)
            return 2
    return None


def serve(args: Sequence[str] | None) -> int:
    """Run the node until a signal, and return the exit code of the process."""
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.signals import SignalHandlerOptions

    from edgegpt_ros.node import GeneratorNode

    # With Python's default of 5 ms the engine thread would wait that long for a busy executor thread, and
    # the executor thread for the engine.
    sys.setswitchinterval(0.0005)
    try:
        # rclpy's own handlers would shut the context down, and no client would get its reply.
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
        node = GeneratorNode()
    except Exception as error:
        print(f"edgegpt cannot start: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    stop = _signal_pipe()
    # One thread: no callback blocks on the model, and a second thread adds a third to the latency.
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    end = threading.Event()
    thread = threading.Thread(target=_spin, args=(executor, end, node), name="edgegpt-executor", daemon=True)
    thread.start()
    node.autostart()
    os.read(stop, 1)

    ended = node.close(_WORK_S)
    until = monotonic() + _REPLY_S
    for _ in range(3):  # the replies of ended requests are sent by tasks, which create further tasks
        done = threading.Event()
        executor.create_task(done.set)
        done.wait(max(0.0, until - monotonic()))
    sleep(_LINGER_S)
    end.set()
    executor.create_task(lambda: None)  # spin_once returns after a task, not when it is only woken
    thread.join(_LEAVE_S)
    if not ended or thread.is_alive():
        node.get_logger().warning("the node ends while the model is loading or running")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # a call of the model cannot be interrupted; Python's own exit would wait or crash
    # Goals that came too late to begin are dropped; Python warns of their coroutines.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    executor.shutdown(0)
    node.destroy_node()
    rclpy.shutdown()
    return 0


def _signal_pipe() -> int:
    """Return a file descriptor from which one byte can be read per signal.

    Python runs a handler on the main thread between any two lines, also while that thread holds a lock;
    so the handler does nothing, and the interpreter itself writes the byte.
    """
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    return read


def _spin(executor: Any, end: threading.Event, node: Any) -> None:
    """Spin until `end`; an exception in a callback, which ends rclpy's own spin, is logged."""
    while not end.is_set():
        try:
            executor.spin_once()
        except Exception as error:
            if end.is_set():
                return
            node.get_logger().error(f"a callback failed: {error!r}")
