"""The terminal chat, as a process with pipes for a terminal."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from edgegpt_ros.client import GeneratorClient

from .peer import SOON
from .workspace import environment, executable, own_domain


class Chat:
    """A chat that runs.

    Attributes:
        seen: what it has printed.
    """

    def __init__(self, domain: int, **variables: str) -> None:
        self.process = subprocess.Popen(
            [executable("chat")],
            env={**environment(domain), **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.seen = ""

    def type(self, line: bytes) -> None:
        """Type a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def read_until(self, text: str) -> str:
        """Read until this text, or anything where it is empty; what was read."""
        assert self.process.stdout is not None
        new = b""
        while not new or text not in new.decode("utf-8", "replace"):
            byte = self.process.stdout.read(1)
            assert byte, self.seen + new.decode("utf-8", "replace")
            new += byte
        self.seen += new.decode("utf-8", "replace")
        return new.decode("utf-8", "replace")

    def end(self) -> int:
        """Wait for the end; the exit code."""
        out, _ = self.process.communicate(timeout=SOON)
        self.seen += out.decode("utf-8", "replace")
        assert "Traceback" not in self.seen, self.seen
        return self.process.returncode


@contextmanager
def chatting(domain: int, **variables: str) -> Iterator[Chat]:
    """A chat, killed at the end, however the test ends."""
    chat = Chat(domain, **variables)
    try:
        yield chat
    finally:
        chat.process.kill()
        chat.process.wait()


@pytest.fixture
def domain(slow_domain: int, client: GeneratorClient) -> int:
    """Where an active generator is."""
    return slow_domain


def test_the_chat_answers_and_begins_anew(domain: int) -> None:
    with chatting(domain) as chat:
        chat.type(b"stop")
        assert "[length, first" in chat.read_until(" ms]")
        chat.type(b"")
        chat.type(b"/new")
        chat.type(b"stop")
        assert "[length, first" in chat.read_until(" ms]")
        chat.type(b"/quit")
        assert chat.end() == 0


def test_ctrl_c_cancels_the_answer_that_grows_and_the_chat_goes_on(domain: int) -> None:
    with chatting(domain) as chat:
        chat.read_until("> ")
        chat.type(b"stop")
        chat.read_until("")  # the first of the answer
        chat.process.send_signal(signal.SIGINT)
        assert "[cancelled]" in chat.read_until("> ")
        chat.type(b"stop")
        assert "[length, first" in chat.read_until(" ms]")
        assert chat.process.stdin is not None
        chat.process.stdin.close()  # as Ctrl-D
        assert chat.process.wait(SOON) == 0


def test_ctrl_c_ends_a_chat_that_waits_for_a_line(domain: int) -> None:
    with chatting(domain) as chat:
        chat.read_until("> ")
        chat.process.send_signal(signal.SIGINT)
        assert chat.end() == 0


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_a_line_that_is_not_utf8_is_said_and_the_chat_goes_on(domain: int, errors: str) -> None:
    with chatting(domain, PYTHONIOENCODING=f"utf-8:{errors}") as chat:
        chat.read_until("> ")
        chat.type(b"drive \xed\xa0\x80")
        chat.type(b"/quit")
        assert chat.end() == 0
        assert "half a character" in chat.seen or "not UTF-8" in chat.seen


def test_what_ros_does_not_understand_is_one_sentence() -> None:
    with own_domain() as domain, chatting(domain, ROS_DOMAIN_ID="abc") as chat:
        assert chat.end() == 2
        assert "the chat cannot start: " in chat.seen
        assert "ROS_DOMAIN_ID is not an integral number" in chat.seen


def test_without_a_generator_it_says_how_to_start_one() -> None:
    with own_domain() as domain, chatting(domain) as chat:
        assert chat.end() == 2
        assert "no generator answers here; start one: ros2 run edgegpt_ros generator" in chat.seen
