"""What the tests of the ROS 2 workspace share. They run in .venv-ros, elsewhere they are not collected."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

if find_spec("rclpy") is None:
    collect_ignore_glob = ["test_*.py"]  # the workstation's environment: `make test` runs both
elif find_spec("edgegpt_msgs") is None:
    raise pytest.UsageError(
        "edgegpt_msgs is not on the path; run these as `ros2_ws/run -- pytest tests/ros`, after `make ros`"
    )


@pytest.fixture
def ros_env() -> Iterator[dict[str, str]]:
    """Environment for the processes of one test, in a ROS domain of their own."""
    from .workspace import environment, own_domain

    with own_domain() as domain:
        yield environment(domain)
