"""The ROS 2 part of the demo, as `make demo` runs it."""

import subprocess
import sys
from pathlib import Path

from .helpers.peer import SOON
from .helpers.process import ROOT, environment

DEMO = ROOT / "examples" / "ros_demo.py"


def demo(file: Path) -> "subprocess.Popen[str]":
    env = {key: value for key, value in environment(0).items() if key != "ROS_DOMAIN_ID"}
    return subprocess.Popen(
        [sys.executable, str(DEMO), str(file)],
        env={**env, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_two_concurrent_demos_do_not_receive_each_others_messages(model_file: Path) -> None:
    demos = [demo(model_file), demo(model_file)]
    try:
        for process in demos:
            out, _ = process.communicate(timeout=SOON)
            assert process.returncode == 0, out
            assert "exit code 0" in out
            # One response to the prompt, not one from each demo's node, and the streamed answers.
            assert out.count('{"commands":[{"action":"move","direction":"forward","distance_m":2}]}') == 1
            assert out.count("generate <-") == out.count("tokens   ->") == 2
    finally:
        for process in demos:
            process.kill()
            process.wait()


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    process = demo(tmp_path / "none.onnx")
    out, _ = process.communicate(timeout=SOON)
    assert process.returncode == 1
    assert str(tmp_path / "none.onnx") in out
    assert out.count("\n") == 1
