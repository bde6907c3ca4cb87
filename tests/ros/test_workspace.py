"""Tests of several processes use different ROS domains."""

import subprocess
import sys
from pathlib import Path

HOLD = """
import sys
from ros.helpers.process import own_domain
with own_domain() as domain:
    print(domain, flush=True)
    sys.stdin.read()
"""


def test_concurrent_processes_never_hold_the_same_domain(ros_env: dict[str, str]) -> None:
    tests = Path(__file__).parents[1]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    holders = [subprocess.Popen([sys.executable, "-c", HOLD], cwd=tests, **pipes) for _ in range(6)]
    try:
        domains = [int(holder.stdout.readline()) for holder in holders]
        assert len({int(ros_env["ROS_DOMAIN_ID"]), *domains}) == 7
    finally:
        for holder in holders:
            holder.communicate(timeout=10)
    assert [holder.returncode for holder in holders] == [0] * 6
