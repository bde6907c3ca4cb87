"""Chat with a generator in the terminal: `ros2 run edgegpt_ros chat`.

Ctrl-C cancels a running answer, and ends the chat at the prompt, as /quit and Ctrl-D do. /new begins a new
conversation. `--ros-args -r __ns:=/robot1` connects to the generator of robot1.
"""

import sys
from collections.abc import Sequence
from typing import Final
from uuid import uuid4

import rclpy
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from edgegpt_ros.client import ClientError, GeneratorClient
from edgegpt_ros.main import early_exit

_USAGE: Final = """\
usage: chat [--ros-args [-r FROM:=TO] ...]

Chat with a generator in the terminal. Ctrl-C cancels a running answer, and ends the chat at the prompt, as
/quit and Ctrl-D do. /new begins a new conversation.

  ros2 run edgegpt_ros chat --ros-args -r __ns:=/robot1"""


def main(args: Sequence[str] | None = None) -> None:
    """Chat until the user ends it."""
    code = early_exit("the chat", _USAGE, args)
    sys.exit(_run(args) if code is None else code)


def _run(args: Sequence[str] | None) -> int:
    try:
        # rclpy's own handler of SIGINT would end the client, and with it the conversation.
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
        node = Node(f"edgegpt_chat_{uuid4().hex[:6]}")
    except Exception as error:
        print(f"the chat cannot start: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    try:
        with GeneratorClient(node) as client:
            if not client.wait_for_server(10.0):
                print("no generator is running; start one: ros2 run edgegpt_ros generator", file=sys.stderr)
                return 2
            _chat(client)
    except KeyboardInterrupt:
        print()
    finally:
        node.destroy_node()
        rclpy.try_shutdown()
    return 0


def _chat(client: GeneratorClient) -> None:
    prefix = f"chat-{uuid4().hex[:6]}"
    number = 1
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            print()
            return
        except UnicodeDecodeError as error:
            print(f"the line is not UTF-8: {error.reason}; type it again")
            continue
        if line == "/quit":
            return
        if line == "/new":
            number += 1
        elif line:
            _answer(client, line, f"{prefix}-{number}")


def _answer(client: GeneratorClient, prompt: str, session: str) -> None:
    try:
        pending = client.start(prompt, session=session)
    except ValueError as error:
        print(error)
        return
    try:
        for text in pending:
            print(text, end="", flush=True)
        answer = pending.result()
        timing = answer.timing
        print(f"\n  [{answer.finish_reason}, first {timing.ttft_ms:.1f} ms, total {timing.total_ms:.1f} ms]")
    except KeyboardInterrupt:
        pending.cancel()
        print("\n  [cancelled]")
    except ClientError as error:
        print(f"\n  [{error}]")
