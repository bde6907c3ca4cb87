"""A client that sends one goal and waits to be killed; a program that tests start.

Arguments: the goal's id as 32 hexadecimal digits, and its number of tokens. It prints `sent` after sending.
"""

import sys
from uuid import UUID

import rclpy
from edgegpt_msgs.action import Generate
from edgegpt_msgs.msg import GenerationOptions
from rclpy.action import ActionClient
from unique_identifier_msgs import msg as unique_identifier


def main() -> None:
    rclpy.init()
    node = rclpy.create_node("short_lived")
    client = ActionClient(node, Generate, "generate")
    assert client.wait_for_server(60)
    # A first answer proves that the node has discovered this client; DDS may drop what is sent before.
    ended = False
    while not ended:
        first = client.send_goal_async(
            Generate.Goal(prompt="stop", options=GenerationOptions(max_new_tokens=1))
        )
        rclpy.spin_until_future_complete(node, first, timeout_sec=2)
        if first.done():
            result = first.result().get_result_async()
            rclpy.spin_until_future_complete(node, result, timeout_sec=2)
            ended = result.done()
    client.send_goal_async(
        Generate.Goal(prompt="stop", options=GenerationOptions(max_new_tokens=int(sys.argv[2]))),
        goal_uuid=unique_identifier.UUID(uuid=list(UUID(sys.argv[1]).bytes)),
    )
    print("sent", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
