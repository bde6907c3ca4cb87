"""A server whose model takes a step only when a test lets it."""

import threading

from edgegpt.serving.server import GenerationServer
from helpers.scripted import Script

PROMPT = "go"
ANSWER = "abcdefgh"
SOON = 10  # seconds after which a test that hangs fails


class Held:
    """The answer to PROMPT is ANSWER, one character a step, and the engine thread waits before each.

    Attributes:
        script: of the model; `script.steps` are those it has taken.
        ended: the names of the requests in the order of their ends.
    """

    def __init__(self, **options) -> None:
        self.script = Script(PROMPT, ANSWER)
        self.script.before_step = self._before_step
        self.ended: list[str] = []
        self._waits = threading.Semaphore(0)
        self._may = threading.Semaphore(0)
        self._free = False
        self.server = GenerationServer(self.script.generator, **options)

    def __enter__(self) -> "Held":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        assert self.server.close(SOON)

    def _before_step(self, n_tokens: int) -> None:
        if not self._free:
            self._waits.release()
            assert self._may.acquire(timeout=SOON)

    def submit(self, name="", prompt=PROMPT, params=None, **options):
        ticket = self.server.submit(prompt, params, **options)
        ticket.add_done_callback(lambda ticket: self.ended.append(name))
        return ticket

    def busy(self, steps=2, **options):
        """A request that has taken so many steps and waits to take the next."""
        ticket = self.submit("running", **options)
        self.advance(steps)
        return ticket

    def advance(self, steps: int) -> None:
        """Let the model take so many steps, and wait until it wants to take the next."""
        for _ in range(steps):
            assert self._waits.acquire(timeout=SOON)
            self._may.release()
        assert self._waits.acquire(timeout=SOON)
        self._waits.release()

    def release(self) -> None:
        """Let the model take all steps from now on."""
        self._free = True
        self._may.release(100)

    def hold(self) -> None:
        """Let it take none again; only while no request is at work."""
        self._free = False
        self._waits, self._may = threading.Semaphore(0), threading.Semaphore(0)


def ended_as(ticket):
    """Text, finish reason and kind of error of a ticket."""
    outcome = ticket.outcome(SOON)
    return outcome.reply.text, outcome.reply.finish_reason, type(outcome.error)
