"""What the executables do before rclpy starts."""

import subprocess

import pytest

from .helpers.process import GeneratorProcess, executable

BOTH = pytest.mark.parametrize("name", ["generator", "chat"])


def ended(name: str, env: dict[str, str], *arguments: str) -> tuple[int, str, str]:
    """Return exit code, output and errors of an executable that ends by itself."""
    run = subprocess.run(
        [executable(name), *arguments],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return run.returncode, run.stdout, run.stderr


@BOTH
@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--help", "--ros-args", "-p", "model:=x.onnx"]])
def test_help_prints_the_usage(ros_env: dict[str, str], name: str, arguments: list[str]) -> None:
    code, out, err = ended(name, {**ros_env, "ROS_DOMAIN_ID": "nonsense"}, *arguments)
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: {name} ")


@BOTH
@pytest.mark.parametrize("domain", ["233", "-1", "99999999999999999999", "kitchen"])
def test_a_domain_that_ros_cannot_use_is_one_line_and_exit_code_2(
    ros_env: dict[str, str], name: str, domain: str
) -> None:
    code, out, err = ended(name, {**ros_env, "ROS_DOMAIN_ID": domain})
    assert (code, out) == (2, "")
    assert "ROS_DOMAIN_ID" in err
    assert domain in err or domain == "kitchen"  # rcl does not repeat it
    assert err.count("\n") == 1


def test_an_argument_that_ros_cannot_parse_is_exit_code_2(ros_env: dict[str, str]) -> None:
    process = GeneratorProcess(ros_env, {"model": "["})
    try:
        assert process.process.wait(20) == 2
    finally:
        process.stop()
    assert "Traceback" not in process.text
