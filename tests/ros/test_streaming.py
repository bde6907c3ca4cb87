"""Nothing is lost on the topic `tokens`, however its chunks are grouped."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from edgegpt_msgs.msg import ErrorCode

from .generator_process import GeneratorProcess
from .peer import Peer, until
from .workspace import environment, own_domain


@pytest.fixture
def domain() -> Iterator[int]:
    with own_domain() as domain:
        yield domain


def test_fifty_bursts_of_two_hundred_tokens_lose_no_chunk(domain: int, model_file: Path) -> None:
    parameters = {"model": model_file, "max_new_tokens": 200, "chunk_ms": 0}
    with GeneratorProcess(environment(domain), parameters, faults={"endless": 1}), Peer(domain) as peer:
        peer.wait_for_node()
        until(lambda: peer.state() == "active", "active node")
        for seed in range(50):
            goal = peer.goal("stop", temperature=1.0, seed=seed)
            assert goal.end() == ("succeeded", "length", ErrorCode.OK)
            chunks = goal.chunks()
            assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
            assert "".join(chunk.text for chunk in chunks) == goal.result().text
            assert goal.result().stats.completion_tokens == 200
            assert len(chunks) > 150  # some tokens are parts of a character


def test_chunks_are_grouped_by_time(domain: int, model_file: Path) -> None:
    parameters = {"model": model_file, "max_new_tokens": 40, "chunk_ms": 100}
    faults = {"endless": 1, "step_ms": 10}
    with GeneratorProcess(environment(domain), parameters, faults=faults), Peer(domain) as peer:
        peer.wait_for_node()
        until(lambda: peer.state() == "active", "active node")
        goal = peer.goal("stop")
        assert goal.end() == ("succeeded", "length", ErrorCode.OK)
        chunks = goal.chunks()
        assert "".join(chunk.text for chunk in chunks) == goal.result().text
        assert 3 <= len(chunks) <= 1 + goal.result().stats.total_ms / 100 + 1
