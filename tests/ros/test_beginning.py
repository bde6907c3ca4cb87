"""What the executables say before rclpy starts."""

import subprocess

import pytest

from .workspace import executable

BOTH = pytest.mark.parametrize(
    ("name", "sentence"), [("generator", "edgegpt cannot start"), ("chat", "the chat cannot start")]
)


def ended(name: str, env: dict[str, str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of an executable that ends by itself."""
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
def test_a_call_for_help_prints_the_usage(
    ros_env: dict[str, str], name: str, sentence: str, arguments: list[str]
) -> None:
    code, out, err = ended(name, {**ros_env, "ROS_DOMAIN_ID": "nonsense"}, *arguments)
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: {name} [--ros-args ")
    assert f"ros2 run edgegpt_ros {name} --ros-args" in out


@BOTH
@pytest.mark.parametrize("domain", ["233", "-1", "0400", "0x100", "99999999999999999999"])
def test_a_domain_that_dds_has_no_ports_for_is_refused_in_a_sentence(
    ros_env: dict[str, str], name: str, sentence: str, domain: str
) -> None:
    answer = ended(name, {**ros_env, "ROS_DOMAIN_ID": domain})
    assert answer == (2, "", f"{sentence}: ROS_DOMAIN_ID must be from 0 to 232, got {domain!r}\n")


@BOTH
def test_a_domain_that_is_no_number_is_refused_in_a_sentence(
    ros_env: dict[str, str], name: str, sentence: str
) -> None:
    code, out, err = ended(name, {**ros_env, "ROS_DOMAIN_ID": "kitchen"})
    assert (code, out) == (2, "")
    assert err.startswith(f"{sentence}: failed to initialize rcl: ROS_DOMAIN_ID is not an integral number")
    assert err.count("\n") == 1
