"""edgegpt's log records in the node's log."""

import logging

import pytest
import rclpy.logging
from edgegpt_ros.log import NodeLog


def test_a_record_of_edgegpt_is_one_line_of_the_nodes_log(capfd: pytest.CaptureFixture[str]) -> None:
    log = NodeLog(rclpy.logging.get_logger("robot"))
    source = logging.getLogger("edgegpt.serving.server")
    try:
        source.warning("%d left", 3)
        source.error("gone")
        try:
            raise ValueError("first\nsecond")
        except ValueError:
            source.exception("failed")
    finally:
        log.close()
    source.debug("after the end")
    lines = [line.partition("[robot]: ") for line in capfd.readouterr().err.splitlines()]
    assert [(level[:6].strip("["), text) for level, _, text in lines] == [
        ("WARN]", "3 left"),
        ("ERROR", "gone"),
        ("ERROR", "failed: first"),
    ]
