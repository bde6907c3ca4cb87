"""Thousands of requests leave no memory behind."""

import time
from pathlib import Path

import pytest
from edgegpt_msgs.msg import ErrorCode

from .helpers.robot import generator_and_peer

# The node keeps a result for ten seconds. At no more than this rate it never holds more than a thousand, so
# the figure does not depend on the machine's speed.
PER_S = 100
WARM, GOALS = 1000, 2000
LIMIT_BYTES = 3e6  # a result that stays takes more than 3 kB; measured: 0.3 MB in all


@pytest.mark.slow
def test_two_thousand_short_goals_leave_the_memory_flat(model_file: Path) -> None:
    with generator_and_peer({"model": model_file}) as (process, peer):

        def goals(n: int) -> int:
            for _ in range(n):
                began = time.monotonic()
                goal = peer.goal("stop", max_new_tokens=2)
                assert goal.end()[0] == "succeeded"
                time.sleep(max(0.0, 1 / PER_S - (time.monotonic() - began)))
            peer.tokens.clear()
            return process.rss_bytes()

        warm = goals(WARM)
        assert goals(GOALS) - warm < LIMIT_BYTES


def test_counting_takes_little_memory_however_long_the_text(model_file: Path) -> None:
    with generator_and_peer({"model": model_file}) as (process, peer):
        before = process.peak_rss_bytes()
        for _ in range(3):
            assert peer.count("drive forward " * 3600).tokens > 10_000
            assert peer.count("drive forward " * 150_000).error_code == ErrorCode.INVALID_REQUEST
        assert process.peak_rss_bytes() - before < 50e6  # counting the long text would take 270 MB
