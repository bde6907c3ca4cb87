"""What the tests of the ROS 2 workspace share. They run in .venv-ros, elsewhere they are not collected."""

import os
import signal
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

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
    """Environment for the processes of one test, in a ROS domain of their own."""
    from .workspace import environment, own_domain

    with own_domain() as domain:
        yield environment(domain)


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """No test waits for ever, whatever it waits for."""

    def give_up(*_: object) -> None:
        raise TimeoutError("the test took longer than three minutes")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(180)
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
