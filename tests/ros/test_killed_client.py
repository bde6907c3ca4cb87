"""A client that dies with a goal on its way: the node has heard it, ends it, and serves the others."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from edgegpt_msgs.msg import ErrorCode, TokenChunk

from .peer import Peer, until
from .robot import slow_generator
from .workspace import environment, own_domain

LONG = 150  # tokens of the answer that nobody waits for, at 20 ms each
CLIENT = Path(__file__).with_name("short_lived_client.py")


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


@pytest.mark.parametrize("moment", ["right after sending", "while its answer grows"])
def test_a_killed_clients_goal_was_heard_ends_and_the_next_one_is_served(
    domain: int, peer: Peer, moment: str
) -> None:
    goal_id = uuid4().hex

    def chunks() -> list[TokenChunk]:
        return [chunk for chunk in list(peer.tokens) if chunk.request_id == goal_id]

    client = subprocess.Popen(
        [sys.executable, str(CLIENT), goal_id, str(LONG)],
        env=environment(domain),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert client.stdout is not None
        assert client.stdout.readline() == "sent\n"
        if moment == "while its answer grows":
            until(chunks, "chunk")
    finally:
        client.kill()
        client.communicate(timeout=10)
    until(chunks, "chunk: the node has not heard the goal")
    assert not any(chunk.last for chunk in chunks())  # it was at work when nobody waited any more
    behind = peer.goal("stop", max_new_tokens=3)  # waits for it
    assert behind.end() == ("succeeded", "length", ErrorCode.OK)
    until(lambda: any(chunk.last for chunk in chunks()), "last chunk")
    assert len(chunks()) > LONG // 2
    status = until(lambda: (s := peer.diagnostics())["work"] == "idle" and s, "idle node")
    assert (status["state"], status["queue"]) == ("active", "0")
