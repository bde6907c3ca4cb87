"""What edgegpt logs is in the node's log, one line each."""

import logging

import pytest
import rclpy.logging
from edgegpt_ros.log import NodeLog


def test_what_edgegpt_logs_is_a_line_of_the_nodes_log(capfd: pytest.CaptureFixture[str]) -> None:
    log = NodeLog(rclpy.logging.get_logger("robot"))
    source = logging.getLogger("edgegpt.serving.server")
    try:
        source.warning("%d left", 3)
        source.error("gone")
        try:
            raise ValueError("first line\nsecond line")
        except ValueError:
            source.exception("a callback failed")
    finally:
        log.close()
    source.debug("nobody hears this")
    lines = [line.partition("[robot]: ") for line in capfd.readouterr().err.splitlines()]
    assert [(level[:6].strip("["), text) for level, _, text in lines] == [
        ("WARN]", "3 left"),
        ("ERROR", "gone"),
        ("ERROR", "a callback failed: first line"),
    ]
