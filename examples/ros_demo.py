"""The end of the demo: the node, one instruction through the topic and some through the action.

ros2_ws/run -- python examples/ros_demo.py runs/demo/rover.onnx
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import rclpy
from edgegpt_msgs.msg import ErrorCode
from edgegpt_ros.client import GeneratorClient, RefusedError
from rclpy.node import Node
from rich.console import Console
from std_msgs.msg import String

ROOT = Path(__file__).parents[1]
FILE = ROOT / "runs" / "demo" / "rover.onnx"
GENERATOR = ROOT / "ros2_ws" / "install" / "edgegpt_ros" / "lib" / "edgegpt_ros" / "generator"
SPOKEN = "drive forward two metres"
INSTRUCTIONS = [
    "go to the kitchen, then pick up the red cup",
    "back up six feet and follow me",
]
SECONDS = 10  # limit of every wait

console = Console(highlight=False)


@contextmanager
def own_domain() -> Iterator[int]:
    """Reserve a ROS_DOMAIN_ID that no other demo, and no test, uses on this machine.

    The port 32768 + domain is bound meanwhile, as by ROS 2's domain_coordinator, which a robot may lack.
    """
    for domain in range(1, 101):
        with socket.socket() as held:
            try:
                held.bind(("", 32768 + domain))
            except OSError:
                continue
            yield domain
            return
    sys.exit("all the ROS domains from 1 to 100 are in use")


def say(node: Node, text: str) -> tuple[str, float]:
    """Publish on `prompt` and wait for `response`; return its text and the milliseconds."""
    received: list[str] = []
    node.create_subscription(String, "response", lambda message: received.append(message.data), 10)
    prompts = node.create_publisher(String, "prompt", 10)
    end = time.monotonic() + SECONDS
    while not (prompts.get_subscription_count() and node.count_publishers("response")):
        if time.monotonic() > end:
            sys.exit("the node's topics did not appear")
        time.sleep(0.01)
    time.sleep(0.2)  # until the node has discovered our subscription; an earlier response would be lost
    while not received and time.monotonic() < end:
        began = time.perf_counter()
        prompts.publish(String(data=text))
        while not received and time.perf_counter() - began < 1:
            rclpy.spin_once(node, timeout_sec=0.1)
    if not received:
        sys.exit(f"there was no response within {SECONDS} s")
    return received[0], (time.perf_counter() - began) * 1000


def watch(client: GeneratorClient, text: str) -> None:
    """Send a goal, print the answer while it grows, and how long it took."""
    console.print(f"[bold]generate[/bold] <- {text}\n[bold]tokens[/bold]   -> ", end="")
    began = time.perf_counter()
    first, chunks = 0.0, 0
    pending = client.start(text)
    for chunk in pending:
        first = first or (time.perf_counter() - began) * 1000
        chunks += 1
        console.print(chunk, end="", style="green", markup=False, soft_wrap=True)
        console.file.flush()
    in_node = pending.result(SECONDS).timing.total_ms
    whole = (time.perf_counter() - began) * 1000
    console.print(
        f"\n            {chunks} chunks, first after {first:.1f} ms, all after {whole:.1f} ms "
        f"({in_node:.1f} in the node)",
        style="dim",
    )


def wait_until_active(client: GeneratorClient) -> None:
    """Send requests until one is answered; the node refuses them while its model is loading."""
    end = time.monotonic() + SECONDS
    while True:
        try:
            client.generate("stop", timeout_s=1)
            return
        except RefusedError as error:
            if error.code != ErrorCode.NOT_ACTIVE or time.monotonic() > end:
                sys.exit(str(error))
            time.sleep(0.05)
        except TimeoutError as error:  # the node may not have discovered this client yet
            if time.monotonic() > end:
                sys.exit(str(error))


def act(file: Path) -> None:
    """Send instructions to a running node and print its answers."""
    rclpy.init()
    node = Node("demo")
    with GeneratorClient(node) as client:
        if not client.wait_for_server(SECONDS):
            sys.exit(f"the node did not come up with {file}")
        wait_until_active(client)
        text, taken = say(node, SPOKEN)
        console.print(f"[bold]prompt[/bold]   <- {SPOKEN}  [dim]({taken:.1f} ms)[/dim]")
        console.print("[bold]response[/bold] -> ", end="")
        console.print(text, style="green", markup=False, soft_wrap=True)
        for instruction in INSTRUCTIONS:
            watch(client, instruction)
    node.destroy_node()
    rclpy.shutdown()


def show(file: Path, domain: int) -> int:
    """Start the node, send it instructions, stop it, and return its exit code."""
    # Loopback only: the demo must not reach a robot in the same network.
    os.environ |= {"ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    arguments = ["-p", f"model:={file}", "-p", "chunk_ms:=2.0", "--log-level", "warn"]
    console.print(f"\n[bold]$ ros2 run edgegpt_ros generator --ros-args -p model:={file.name}[/bold]")
    generator = subprocess.Popen([str(GENERATOR), "--ros-args", *arguments])
    try:
        act(file)
    finally:
        generator.send_signal(signal.SIGINT)
        began = time.perf_counter()
        try:
            code = generator.wait(SECONDS)
        except subprocess.TimeoutExpired:
            generator.kill()
            code = generator.wait()
    console.print(f"SIGINT: the node ended in {time.perf_counter() - began:.1f} s, exit code {code}")
    return code


def demo() -> None:
    """Run the demo in its own ROS domain."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    if not file.exists():
        sys.exit(f"there is no file {file}; `make demo` exports it")
    with own_domain() as domain:
        sys.exit(show(file, domain))


if __name__ == "__main__":
    demo()
