"""Processes in the environment of the built workspace, each test in its own ROS domain."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import domain_coordinator

ROOT = Path(__file__).parents[3]
WORKSPACE = ROOT / "ros2_ws"


@cache
def _sourced() -> dict[str, str]:
    # What env.sh makes of an environment without ROS.
    script = f'. "{WORKSPACE}/env.sh" && env -0'
    ros = ("ROS_", "RMW_", "RCUTILS_")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(ros)}
    run = subprocess.run(["bash", "-c", script], env=clean, stdout=subprocess.PIPE, text=True, check=True)
    return dict(entry.split("=", 1) for entry in run.stdout.split("\0") if "=" in entry)


def environment(domain: int) -> dict[str, str]:
    """Return an environment with rclpy and both packages, a ROS domain, and discovery on loopback only."""
    return {
        **_sourced(),
        "ROS_DOMAIN_ID": str(domain),
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "PYTHONUNBUFFERED": "1",
    }


@contextmanager
def own_domain() -> Iterator[int]:
    """Reserve a ROS_DOMAIN_ID that no other test on this machine uses at the same time."""
    held = domain_coordinator.domain_id()
    domain = held.__enter__()
    try:
        yield int(domain)
    finally:
        held.__exit__(None, None, None)  # without the error: it would take an OSError for a domain in use


def executable(name: str, package: str = "edgegpt_ros") -> str:
    """Return the path of the file that `ros2 run PACKAGE NAME` starts."""
    return str(WORKSPACE / "install" / package / "lib" / package / name)


def start(
    command: list[str], env: Mapping[str, str], *, stderr: int | None = subprocess.STDOUT
) -> "subprocess.Popen[str]":
    """Start a process whose output can be read; the caller ends it."""
    return subprocess.Popen(command, env=dict(env), stdout=subprocess.PIPE, stderr=stderr, text=True)


FAULTY = Path(__file__).with_name("faulty_generator.py")


class GeneratorProcess:
    """The node as a process, as a robot starts it, or with faults.

    Attributes:
        output: the lines that it has printed.
        took: seconds from the signal of `stop` to the end.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        parameters: Mapping[str, Any] | None = None,
        *,
        namespace: str = "",
        faults: Mapping[str, object] | None = None,
        ros_arguments: Sequence[str] = (),
    ) -> None:
        """Start it; `faults` are those of faulty_generator.py, None runs the installed executable."""
        command = [executable("generator")] if faults is None else [sys.executable, str(FAULTY)]
        arguments = ["--ros-args", *ros_arguments]
        if namespace:
            arguments += ["-r", f"__ns:={namespace}"]
        for name, value in (parameters or {}).items():
            arguments += ["-p", f"{name}:={value}"]
        extra = {f"EDGEGPT_TEST_{name.upper()}": str(value) for name, value in (faults or {}).items()}
        self.process = start([*command, *arguments], {**env, **extra})
        self.output: list[str] = []
        self.took = 0.0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output.append(line.rstrip())

    @property
    def text(self) -> str:
        """Return all that it has printed."""
        return "\n".join(self.output)

    def rss_bytes(self) -> int:
        """Return the resident memory."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096

    def peak_rss_bytes(self) -> int:
        """Return the peak of the resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def stop(self, number: int = signal.SIGINT, timeout_s: float = 10) -> int:
        """Send a signal, wait for the end, and return the exit code."""
        began = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        self.took = time.monotonic() - began
        self._reader.join(timeout_s)
        return code

    def __enter__(self) -> "GeneratorProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        code = self.stop()
        if error is not None:
            print(self.text)
        else:
            assert code == 0, self.text
            assert "Traceback" not in self.text, self.text
