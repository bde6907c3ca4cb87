"""A client that is killed while its goal runs: the node ends the goal, and serves the others."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from edgegpt_msgs.msg import ErrorCode, TokenChunk

from .helpers import short_lived_client
from .helpers.peer import Peer, until
from .helpers.process import environment, own_domain
from .helpers.robot import slow_generator

LONG = 150  # tokens of the answer, at 20 ms each


@pytest.fixture(scope="module")
def domain(model_file: Path) -> Iterator[int]:
    with own_domain() as domain, slow_generator(domain, model_file) as generator:
        yield domain
        assert generator.process.poll() is None


@pytest.fixture(scope="module")
def peer(domain: int) -> Iterator[Peer]:
    with Peer(domain) as peer:
        peer.wait_for_node()
        until(lambda: peer.state() == "active", "active node")
        yield peer


@pytest.mark.parametrize("moment", ["sent", "growing"])
def test_a_killed_clients_goal_ends_and_the_next_one_is_served(domain: int, peer: Peer, moment: str) -> None:
    goal_id = uuid4().hex

    def chunks() -> list[TokenChunk]:
        return [chunk for chunk in list(peer.tokens) if chunk.request_id == goal_id]

    client = subprocess.Popen(
        [sys.executable, short_lived_client.__file__, goal_id, str(LONG)],
        env=environment(domain),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert client.stdout is not None
        assert client.stdout.readline() == "sent\n"
        if moment == "growing":
            until(chunks, "chunk")
    finally:
        client.kill()
        client.communicate(timeout=10)
    until(chunks, "chunk: the node has not received the goal")
    assert not any(chunk.last for chunk in chunks())  # it still runs
    next_goal = peer.goal("stop", max_new_tokens=3)  # waits for it
    assert next_goal.end() == ("succeeded", "length", ErrorCode.OK)
    until(lambda: any(chunk.last for chunk in chunks()), "last chunk")
    assert len(chunks()) > LONG // 2
    status = until(lambda: (s := peer.diagnostics())["work"] == "idle" and s, "idle node")
    assert (status["state"], status["queue"]) == ("active", "0")
