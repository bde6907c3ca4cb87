"""Bytes that are no text, through every interface: the node answers what can be read of them."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from edgegpt_msgs.action import Generate
from edgegpt_msgs.msg import ErrorCode
from edgegpt_msgs.srv import Complete, CountTokens
from rclpy.serialization import deserialize_message, serialize_message
from std_msgs.msg import String

from .helpers.peer import Peer
from .helpers.robot import generator_and_peer

MARK = b"@RAW@"  # in the text that is sent; it is replaced by as many bytes
BEFORE, AFTER = "drive forward ", " and stop"
MARKED = BEFORE + MARK.decode() + AFTER

BYTES = {
    "surrogate": b"\xed\xa0\x80\xed\xbf",
    "half": b"\xf0\x9f\x98ab",
    "invalid": b"\xff\xfe\xc0\x80\xff",
    "NUL": b"ab\0cd",
}
# What rclpy reads of it: it ends a text at a NUL and replaces invalid bytes by U+FFFD.
READ = {
    name: (BEFORE + data.decode("utf-8", "replace") + AFTER).partition("\0")[0]
    for name, data in BYTES.items()
}

# bool convert_from_py(PyObject *, void *), the C function by which rclpy fills a message
_FILL = ctypes.PYFUNCTYPE(ctypes.c_bool, ctypes.py_object, ctypes.c_void_p)
_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]


@contextmanager
def raw(kind: type, data: bytes, *, before: int = 0) -> Iterator[None]:
    """Replace MARK by other bytes in the text of every message of a kind that is sent meanwhile.

    Args:
        kind: message whose first field, or the first after `before` bytes, is the text.
        data: as many bytes as MARK has.
        before: size in C of the fields before the text.
    """
    assert len(data) == len(MARK)
    kind.__import_type_support__()  # type: ignore[attr-defined]
    meta: Any = type(kind)
    own = meta._CONVERT_FROM_PY
    fill = _FILL(_pointer(own, _name(own)))

    def fill_and_replace(message: object, address: int) -> bool:
        filled = fill(message, address)
        text = ctypes.c_void_p.from_address(address + before).value  # rosidl's string begins with its data
        assert text is not None
        ctypes.memmove(text + ctypes.string_at(text).index(MARK), data, len(data))
        return bool(filled)

    replacing = _FILL(fill_and_replace)
    meta._CONVERT_FROM_PY = _new(ctypes.cast(replacing, ctypes.c_void_p), _name(own), None)
    try:
        yield
    finally:
        meta._CONVERT_FROM_PY = own


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
    with raw(Generate.Impl.SendGoalService.Request, data, before=16):  # after the goal's id
        goal = peer.goal(MARKED)
    assert goal.end()[2] == ErrorCode.OK
    return goal.result().text


def by_complete(peer: Peer, data: bytes) -> str:
    with raw(Complete.Request, data):
        return peer.complete(MARKED).text


def by_prompt(peer: Peer, data: bytes) -> str:
    # rclpy publishes bytes as they are, a NUL too.
    return peer.say(serialize_message(String(data=MARKED)).replace(MARK, data))


@pytest.mark.parametrize("ask", [by_action, by_complete, by_prompt])
def test_bytes_that_are_no_text_are_read_as_far_as_possible(
    peer: Peer, name: str, ask: Callable[[Peer, bytes], str]
) -> None:
    assert ask(peer, BYTES[name]) == peer.complete(READ[name]).text


def test_bytes_that_are_no_text_can_be_counted(peer: Peer, name: str) -> None:
    with raw(CountTokens.Request, BYTES[name]):
        counted = peer.count(MARKED)
    assert counted.error_code == ErrorCode.OK
    assert counted.tokens == peer.count(READ[name]).tokens


def test_the_bytes_are_sent_as_they_are_up_to_a_nul(name: str) -> None:
    with raw(Complete.Request, BYTES[name]):
        message = serialize_message(Complete.Request(prompt=MARKED))
    assert BEFORE.encode() + BYTES[name].partition(b"\0")[0] in message
    assert MARK not in message
    assert deserialize_message(message, Complete.Request).prompt == READ[name]
