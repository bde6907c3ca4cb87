"""How much the middleware keeps for a door that is busy for a moment."""

from typing import Final

from rclpy.qos import QoSProfile

# ROS 2's own depth for services is 10: of more requests that arrive at once the oldest are dropped without
# a word, and who sent them waits for ever. Whether there are too many is for the node's queue to say.
BURST: Final = QoSProfile(depth=1000)
