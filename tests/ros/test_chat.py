"""The terminal chat, as a process with pipes for a terminal."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from edgegpt_ros.client import GeneratorClient

from .helpers.peer import SOON
from .helpers.process import environment, executable, own_domain


class Chat:
    """A running chat.

    Attributes:
        seen: its output so far.
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
        """Read up to this text, or one byte if it is empty, and return what was read."""
        assert self.process.stdout is not None
        new = b""
        while not new or text not in new.decode("utf-8", "replace"):
            byte = self.process.stdout.read(1)
            assert byte, self.seen + new.decode("utf-8", "replace")
            new += byte
        self.seen += new.decode("utf-8", "replace")
        return new.decode("utf-8", "replace")

    def end(self) -> int:
        """Wait for the end, and return the exit code."""
        out, _ = self.process.communicate(timeout=SOON)
        self.seen += out.decode("utf-8", "replace")
        assert "Traceback" not in self.seen, self.seen
        return self.process.returncode


@contextmanager
def chatting(domain: int, **variables: str) -> Iterator[Chat]:
    """Run a chat, and kill it however the test ends."""
    chat = Chat(domain, **variables)
    try:
        yield chat
    finally:
        chat.process.kill()
        chat.process.wait()


@pytest.fixture
def domain(slow_domain: int, client: GeneratorClient) -> int:
    """The domain of an active generator."""
    return slow_domain


def test_the_chat_answers_and_begins_anew(domain: int) -> None:
    with chatting(domain) as chat:
        for line in (b"stop", b"", b"/new", b"stop"):
            chat.type(line)
            if line == b"stop":
                assert "[length, " in chat.read_until(" ms]")
        chat.type(b"/quit")
        assert chat.end() == 0


def test_ctrl_c_cancels_the_running_answer_and_the_chat_goes_on(domain: int) -> None:
    with chatting(domain) as chat:
        chat.read_until("> ")
        chat.type(b"stop")
        chat.read_until("")  # the first of the answer
        chat.process.send_signal(signal.SIGINT)
        assert "[cancelled]" in chat.read_until("> ")
        chat.type(b"stop")
        assert "[length, " in chat.read_until(" ms]")
        assert chat.process.stdin is not None
        chat.process.stdin.close()  # as Ctrl-D
        assert chat.process.wait(SOON) == 0


def test_ctrl_c_at_the_prompt_ends_the_chat(domain: int) -> None:
    with chatting(domain) as chat:
        chat.read_until("> ")
        chat.process.send_signal(signal.SIGINT)
        assert chat.end() == 0


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_a_line_that_is_not_utf8_is_refused_and_the_chat_goes_on(domain: int, errors: str) -> None:
    with chatting(domain, PYTHONIOENCODING=f"utf-8:{errors}") as chat:
        chat.read_until("> ")
        chat.type(b"drive \xed\xa0\x80")
        chat.type(b"/quit")
        assert chat.end() == 0
        assert "UTF-8" in chat.seen or "surrogate" in chat.seen


def test_without_a_generator_the_chat_ends_with_the_command_that_starts_one() -> None:
    with own_domain() as domain, chatting(domain) as chat:
        assert chat.end() == 2
        assert "edgegpt_ros generator" in chat.seen
