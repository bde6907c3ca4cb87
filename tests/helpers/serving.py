"""A server whose model takes a step only when a test lets it."""

import threading
from typing import Any

from edgegpt.errors import EdgeGPTError
from edgegpt.runtime import Clock, SamplingParams
from edgegpt.serving import GenerationServer, RequestHandle
from helpers.scripted import Script
from helpers.threads import SOON

PROMPT = "go"
ANSWER = "abcdefgh"

Ending = tuple[str, str, type[EdgeGPTError] | None]  # text, finish reason and class of the error
WHOLE: Ending = (ANSWER, "eos", None)


class HeldServer:
    """The answer to PROMPT is ANSWER, one character a step, and the engine thread waits before each.

    Attributes:
        script: of the model; `script.steps` are those it has taken.
        clock: of the script.
        ended: the names of the requests in the order of their ends.
    """

    def __init__(self, *, clock: Clock | None = None, **options: Any) -> None:
        self.script = Script(PROMPT, ANSWER, clock=clock)
        self.script.before_step = self._before_step
        self.clock = self.script.clock
        self.ended: list[str] = []
        self._waits = threading.Semaphore(0)
        self._may = threading.Semaphore(0)
        self._free = False
        self.server = GenerationServer(self.script.generator, **options)

    def __enter__(self) -> "HeldServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        assert self.server.close(SOON)

    def _before_step(self, n_tokens: int) -> None:
        if not self._free:
            self._waits.release()
            assert self._may.acquire(timeout=SOON)

    def submit(
        self, name: str = "", prompt: str = PROMPT, params: SamplingParams | None = None, **options: Any
    ) -> RequestHandle:
        handle = self.server.submit(prompt, params, **options)
        handle.add_done_callback(lambda handle: self.ended.append(name))
        return handle

    def busy(self, steps: int = 2, **options: Any) -> RequestHandle:
        """Submit a request that has taken so many steps and waits to take the next."""
        handle = self.submit("running", **options)
        self.advance(steps)
        return handle

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
        """Let it take none again; only while no request is running."""
        self._free = False
        self._waits, self._may = threading.Semaphore(0), threading.Semaphore(0)

    def outcomes(self) -> dict[str, int]:
        """Return the server's counts of outcomes that are not zero."""
        return {name: n for name, n in self.server.statistics().outcomes.items() if n}


def ended_as(handle: RequestHandle) -> Ending:
    """Wait for the outcome and return its text, finish reason and class of error."""
    reply, error = handle.outcome(SOON).reply, handle.outcome().error
    return reply.text, reply.finish_reason, None if error is None else type(error)
