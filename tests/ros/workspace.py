"""Processes in the environment of the built workspace, each group of them in a ROS domain of its own."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import domain_coordinator

ROOT = Path(__file__).parents[2]
WORKSPACE = ROOT / "ros2_ws"


@cache
def _sourced() -> dict[str, str]:
    # Bash says what env.sh makes of an environment that knows no ROS.
    script = f'. "{WORKSPACE}/env.sh" && env -0'
    ros = ("ROS_", "RMW_", "RCUTILS_")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(ros)}
    run = subprocess.run(["bash", "-c", script], env=clean, stdout=subprocess.PIPE, text=True, check=True)
    return dict(entry.split("=", 1) for entry in run.stdout.split("\0") if "=" in entry)


def environment(domain: int) -> dict[str, str]:
    """What a process needs to find rclpy and both packages, and to hear its own domain on loopback only."""
    return {
        **_sourced(),
        "ROS_DOMAIN_ID": str(domain),
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "PYTHONUNBUFFERED": "1",
    }


@contextmanager
def own_domain() -> Iterator[int]:
    """A ROS_DOMAIN_ID that no other test of this machine holds at the same time."""
    held = domain_coordinator.domain_id()
    domain = held.__enter__()
    try:
        yield int(domain)
    finally:
        held.__exit__(None, None, None)  # never told of an error: it takes an OSError for a domain in use


def executable(name: str, package: str = "edgegpt_ros") -> str:
    """Path of what `ros2 run PACKAGE NAME` starts."""
    return str(WORKSPACE / "install" / package / "lib" / package / name)


def start(
    command: list[str], env: Mapping[str, str], *, stderr: int | None = subprocess.STDOUT
) -> "subprocess.Popen[str]":
    """Start a process whose output can be read; whoever starts it ends it."""
    return subprocess.Popen(command, env=dict(env), stdout=subprocess.PIPE, stderr=stderr, text=True)
