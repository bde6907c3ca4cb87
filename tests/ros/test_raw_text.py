"""Bytes that are no text, at every door of the node: they are answered with the rest of it, or refused."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from edgegpt_msgs.action import Generate
from edgegpt_msgs.msg import ErrorCode
from edgegpt_msgs.srv import Complete, CountTokens
from rclpy.serialization import deserialize_message, serialize_message
from std_msgs.msg import String

from .pair import generator_and_peer
from .peer import Peer
from .raw_text import MARK, raw

BEFORE, AFTER = "drive forward ", " and stop"
MARKED = BEFORE + MARK.decode() + AFTER

BYTES = {
    "lone surrogate": b"\xed\xa0\x80\xed\xbf",
    "half a character": b"\xf0\x9f\x98ab",
    "no UTF-8": b"\xff\xfe\xc0\x80\xff",
    "NUL": b"ab\0cd",
}
# What there is to read of it: rclpy ends a text at a NUL and puts U+FFFD for what is none.
READ = {
    name: (BEFORE + data.decode("utf-8", "replace") + AFTER).partition("\0")[0]
    for name, data in BYTES.items()
}


@pytest.fixture(scope="module")
def peer(model_file: Path) -> Iterator[Peer]:
    with generator_and_peer({"model": model_file, "max_new_tokens": 16}) as (process, peer):
        yield peer
        assert process.process.poll() is None


@pytest.fixture(params=BYTES)
def name(request: pytest.FixtureRequest, peer: Peer) -> Iterator[str]:
    """One kind of bytes; after them the node answers as before."""
    before = peer.complete(BEFORE).text
    yield request.param
    assert peer.complete(BEFORE).text == before


def by_action(peer: Peer, data: bytes) -> str:
    with raw(Generate.Impl.SendGoalService.Request, data, before=16):  # behind the goal's id
        goal = peer.goal(MARKED)
    assert goal.end()[2] == ErrorCode.OK
    return goal.result().text


def by_complete(peer: Peer, data: bytes) -> str:
    with raw(Complete.Request, data):
        return peer.complete(MARKED).text


def by_prompt(peer: Peer, data: bytes) -> str:
    # rclpy publishes bytes as they are, so here a NUL goes out too.
    return peer.say(serialize_message(String(data=MARKED)).replace(MARK, data))


@pytest.mark.parametrize("door", [by_action, by_complete, by_prompt])
def test_what_is_no_text_is_read_as_far_as_it_is(
    peer: Peer, name: str, door: Callable[[Peer, bytes], str]
) -> None:
    assert door(peer, BYTES[name]) == peer.complete(READ[name]).text


def test_what_is_no_text_can_be_counted(peer: Peer, name: str) -> None:
    with raw(CountTokens.Request, BYTES[name]):
        counted = peer.count(MARKED)
    assert counted.error_code == ErrorCode.OK
    assert counted.tokens == peer.count(READ[name]).tokens


def test_the_bytes_go_out_as_they_are_but_for_a_nul_which_ends_them(name: str) -> None:
    with raw(Complete.Request, BYTES[name]):
        message = serialize_message(Complete.Request(prompt=MARKED))
    assert BEFORE.encode() + BYTES[name].partition(b"\0")[0] in message
    assert MARK not in message
    assert deserialize_message(message, Complete.Request).prompt == READ[name]


def test_rclpy_itself_sends_no_half_a_character_and_cuts_at_a_nul(peer: Peer) -> None:
    for send in (peer.complete, peer.say, peer.count):
        with pytest.raises(UnicodeEncodeError):
            send("drive \ud800")
    assert peer.goal(f"{BEFORE}\0{AFTER}").result().text == peer.complete(BEFORE).text
    assert peer.say(f"{BEFORE}\0{AFTER}") == peer.complete(BEFORE).text
