"""The topics `prompt` and `response`: text in, text out, for nodes that know no interface of ours."""

from uuid import uuid4

from edgegpt_msgs.srv import Complete
from rclpy.node import Node
from std_msgs.msg import String

from edgegpt_ros.convert import Answer
from edgegpt_ros.events import NO_PUBLISHER_EVENTS, NO_SUBSCRIPTION_EVENTS
from edgegpt_ros.qos import BURST
from edgegpt_ros.requests import Requests


def open_prompt(node: Node, requests: Requests) -> None:
    """Answer every prompt with one response.

    It is empty when there is no whole answer, because a String has no room for an error and whoever
    reads it must not take a sentence, or half a command, for the answer; the log says why.
    """
    responses = node.create_publisher(String, "response", BURST, event_callbacks=NO_PUBLISHER_EVENTS)

    def on_end(answer: Answer) -> None:
        if answer.error_code:
            node.get_logger().warning(f"a prompt has no answer: {answer.error}")
        responses.publish(String(data="" if answer.error_code else answer.text))

    def on_prompt(message: String) -> None:
        requests.begin(uuid4().hex, Complete.Request(prompt=message.data), on_end)

    node.create_subscription(String, "prompt", on_prompt, BURST, event_callbacks=NO_SUBSCRIPTION_EVENTS)
