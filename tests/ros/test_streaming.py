"""The topic `tokens` loses no chunk, however the chunks are grouped."""

from pathlib import Path

import pytest
from edgegpt_msgs.msg import ErrorCode

from .helpers.robot import generator_and_peer


@pytest.mark.slow
def test_fifty_bursts_of_two_hundred_tokens_lose_no_chunk(model_file: Path) -> None:
    parameters = {"model": model_file, "max_new_tokens": 200, "chunk_ms": 0}
    with generator_and_peer(parameters, faults={"endless": 1}) as (_, peer):
        for seed in range(50):
            goal = peer.goal("stop", temperature=1.0, seed=seed)
            assert goal.end() == ("succeeded", "length", ErrorCode.OK)
            chunks = goal.chunks()
            assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
            assert "".join(chunk.text for chunk in chunks) == goal.result().text
            assert goal.result().stats.completion_tokens == 200
            assert len(chunks) > 150  # some tokens are parts of a character


def test_chunks_are_grouped_by_time(model_file: Path) -> None:
    parameters = {"model": model_file, "max_new_tokens": 40, "chunk_ms": 100}
    faults = {"endless": 1, "step_ms": 10}
    with generator_and_peer(parameters, faults=faults) as (_, peer):
        goal = peer.goal("stop")
        assert goal.end() == ("succeeded", "length", ErrorCode.OK)
        chunks = goal.chunks()
        assert "".join(chunk.text for chunk in chunks) == goal.result().text
        assert 3 <= len(chunks) <= 1 + goal.result().stats.total_ms / 100 + 1
