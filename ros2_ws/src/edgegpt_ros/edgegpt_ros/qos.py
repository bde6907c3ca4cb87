"""QoS profiles of the node's topics, services and action, and publishers without event handlers."""

from collections.abc import Callable
from typing import Any, Final

from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

# ROS 2's default depth of 10 for services drops the oldest of more requests that arrive at once, without
# an error, and their clients would block forever. The scheduler decides which requests are too many.
BURST: Final = QoSProfile(depth=1000)

LATCHED: Final = QoSProfile(
    depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL, reliability=ReliabilityPolicy.RELIABLE
)

# Chunks kept for a slow reader of `tokens`: several answers of thousands of tokens.
CHUNK_DEPTH: Final = 4096

# rclpy gives each topic two event handlers, which only log that a peer's QoS or type does not match. Its
# executor polls each of them whenever it wakes up: without them a request spends 0.2 ms there instead of
# 0.4 ms. The peer has such handlers too, and logs the mismatch.


def create_publisher(node: Node, kind: Any, topic: str, qos: QoSProfile | int) -> Publisher:
    """Create a publisher without event handlers."""
    silent = PublisherEventCallbacks(use_default_callbacks=False)
    return node.create_publisher(kind, topic, qos, event_callbacks=silent)


def create_subscription(
    node: Node, kind: Any, topic: str, callback: Callable[[Any], None], qos: QoSProfile | int
) -> None:
    """Create a subscription without event handlers.

    The node keeps it; rclpy's executor calls `callback` with each message.
    """
    silent = SubscriptionEventCallbacks(use_default_callbacks=False)
    node.create_subscription(kind, topic, callback, qos, event_callbacks=silent)
