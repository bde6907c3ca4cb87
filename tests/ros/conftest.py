"""Fixtures of the ROS tests, which run in .venv-ros and are not collected elsewhere."""

import os
import signal
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.run import (  # noqa: F401  (hooks and a fixture, which pytest finds here)
    default_signals_in_children,
    pytest_collection_modifyitems,
    pytest_configure,
)

if TYPE_CHECKING:
    from edgegpt_ros.client import GeneratorClient
    from rclpy.node import Node

ROOT = Path(__file__).parents[2]
ROVER = ROOT / "checkpoints" / "rover"

if find_spec("rclpy") is None:
    collect_ignore_glob = ["test_*.py"]  # the workstation's environment: `make test` runs both
elif find_spec("edgegpt_msgs") is None:
    raise pytest.UsageError(
        "edgegpt_msgs is not on the path; run these as `ros2_ws/run -- pytest tests/ros`, after `make ros`"
    )


@pytest.fixture
def ros_env() -> Iterator[dict[str, str]]:
    """The environment for the processes of one test, in a ROS domain of their own."""
    from .helpers.process import environment, own_domain

    with own_domain() as domain:
        yield environment(domain)


@pytest.fixture(autouse=True)
def bounded(request: pytest.FixtureRequest) -> Iterator[None]:
    """End a test that waits too long."""
    minutes = 9 if request.node.get_closest_marker("slow") else 3

    def give_up(*_: object) -> None:
        raise TimeoutError(f"the test took longer than {minutes} minutes")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60 * minutes)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint that ships, exported by the workstation's environment.

    EDGEGPT_TEST_MODEL names another file to use instead.
    """
    if given := os.environ.get("EDGEGPT_TEST_MODEL"):
        return Path(given)
    edgegpt = ROOT / ".venv" / "bin" / "edgegpt"
    if not edgegpt.exists():
        give_up = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        give_up("there is no .venv to export the model with; run: make setup")
    file = tmp_path_factory.mktemp("model") / "rover.onnx"
    command = [str(edgegpt), "export", str(ROVER), "--out", str(file)]
    subprocess.run(command, check=True, timeout=300, stdout=subprocess.DEVNULL)
    return file


@pytest.fixture(scope="module")
def slow_domain(model_file: Path) -> Iterator[int]:
    """The ROS domain of a slow generator, one for a module."""
    from .helpers.process import own_domain
    from .helpers.robot import slow_generator

    with own_domain() as domain, slow_generator(domain, model_file):
        yield domain


@pytest.fixture(scope="module")
def robot(slow_domain: int) -> "Iterator[Node]":
    """A node in the domain of the slow generator; no executor spins it."""
    from .helpers.robot import robot_node

    with robot_node(slow_domain) as node:
        yield node


@pytest.fixture(scope="module")
def client(robot: "Node") -> "Iterator[GeneratorClient]":
    """A client of the active slow generator."""
    from edgegpt_ros.client import GeneratorClient

    from .helpers.robot import wait_until_answered

    with GeneratorClient(robot) as client:
        wait_until_answered(client)
        yield client
