"""What tests begin with: a generator with a peer, or a slow generator with a robot's own node."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rclpy
from edgegpt_ros.client import GeneratorClient, RefusedError
from rclpy.node import Node

from .peer import SOON, Peer, until
from .process import GeneratorProcess, environment, own_domain

WHOLE = 60  # tokens of a whole answer
STEP_MS = 20  # per token


@contextmanager
def generator_and_peer(
    parameters: Mapping[str, Any], *, active: bool = True, namespace: str = "", **options: Any
) -> Iterator[tuple[GeneratorProcess, Peer]]:
    """Run a generator in its own ROS domain, with a peer in its namespace that has discovered it.

    Args:
        parameters: of the node.
        active: whether to wait until the node is active.
        namespace: of both.
        options: those of GeneratorProcess.
    """
    with (
        own_domain() as domain,
        GeneratorProcess(environment(domain), parameters, namespace=namespace, **options) as process,
        Peer(domain, namespace) as peer,
    ):
        peer.wait_for_node()
        if active:
            until(lambda: peer.state() == "active", "active node")
        yield process, peer


def slow_generator(domain: int, model_file: Path) -> GeneratorProcess:
    """Start a node whose answers take more than a second, with a long queue."""
    parameters = {"model": model_file, "chunk_ms": 0, "max_new_tokens": WHOLE, "queue_depth": 64}
    return GeneratorProcess(environment(domain), parameters, faults={"step_ms": STEP_MS, "endless": 1})


@contextmanager
def robot_node(domain: int) -> Iterator[Node]:
    """Make a node in its own context, which no executor spins."""
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
    """Wait until the node is active, and has discovered the client."""
    assert client.wait_for_server(SOON)

    def answered() -> bool:
        try:
            client.generate("stop", max_new_tokens=1)
        except (RefusedError, TimeoutError):  # a first answer may be lost while they discover each other
            return False
        return True

    until(answered, "active node")
