"""What the tests of the ROS 2 workspace share. They run in .venv-ros, elsewhere they are not collected."""

import hashlib
import os
import subprocess
import tempfile
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


@pytest.fixture(scope="session")
def model_file() -> Path:
    """The checkpoint that ships, exported by the workstation's environment.

    EDGEGPT_TEST_MODEL names another file to use instead.
    """
    if given := os.environ.get("EDGEGPT_TEST_MODEL"):
        return Path(given)
    edgegpt = ROOT / ".venv" / "bin" / "edgegpt"
    if not edgegpt.exists():
        pytest.skip("there is no .venv to export the model with; run: make setup")
    digest = hashlib.sha256()
    for path in sorted(ROVER.glob("*.*")):
        digest.update(path.read_bytes())
    # An export takes seconds and gives the same file each time, so one serves many runs.
    file = Path(tempfile.gettempdir()) / f"edgegpt-test-{digest.hexdigest()[:16]}" / "rover.onnx"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        command = [str(edgegpt), "export", str(ROVER), "--out", str(file)]
        subprocess.run(command, check=True, timeout=300, stdout=subprocess.DEVNULL)
    return file
