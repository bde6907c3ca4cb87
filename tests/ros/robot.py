"""A robot's own node in the test's process, and a slow generator beside it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import rclpy
from edgegpt_ros.client import GeneratorClient, RefusedError
from rclpy.node import Node

from .generator_process import GeneratorProcess
from .peer import SOON, until
from .workspace import environment

WHOLE = 60  # tokens of an answer that nothing ends before
STEP_MS = 20  # for each of them


def slow_generator(domain: int, model_file: Path) -> GeneratorProcess:
    """A node whose answers take more than a second, and that lets many wait."""
    parameters = {"model": model_file, "chunk_ms": 0, "max_new_tokens": WHOLE, "queue_depth": 64}
    return GeneratorProcess(environment(domain), parameters, faults={"step_ms": STEP_MS, "endless": 1})


@contextmanager
def robot_node(domain: int) -> Iterator[Node]:
    """A node that nobody spins, in a context of its own."""
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"  # read by init
    context = rclpy.Context()
    rclpy.init(context=context, domain_id=domain)
    node = Node("robot", context=context)
    try:
        yield node
    finally:
        node.destroy_node()
        context.try_shutdown()


def wait_until_answered(client: GeneratorClient) -> None:
    """Wait until the node is active, and it and the client know each other."""
    assert client.wait_for_server(SOON)

    def answered() -> bool:
        try:
            client.generate("stop", max_new_tokens=1)
        except (RefusedError, TimeoutError):  # a first answer may be lost while they discover each other
            return False
        return True

    until(answered, "active node")
