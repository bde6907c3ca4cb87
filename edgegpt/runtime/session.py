"""A conversation that keeps its cache, so that a turn reads only what is new."""

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from edgegpt.errors import SessionError
from edgegpt.runtime.kv_cache import KVCache
from edgegpt.runtime.reply import Piece, Reply
from edgegpt.runtime.sampling import SamplingParams
from edgegpt.runtime.stream import Stream, Turn

if TYPE_CHECKING:
    from edgegpt.runtime.generator import TextGenerator


class Session:
    """Turns one after another, each continuing where the last one ended.

    What the next turn sees is every id that was read or generated: prompts, answers, the
    end-of-text token or the whole of the tokens that completed a stop string. A turn that fails, is
    cancelled or closed, or gives no token leaves the session as it was; one that its deadline or
    length cut short stays, and `rewind` takes it back.

    One turn at a time: a second one, and rewind and fork meanwhile, raise SessionError.
    """

    def __init__(self, generator: "TextGenerator", cache: KVCache) -> None:
        self._generator = generator
        self._cache = cache  # holds the first cache.length ids of _ids; the last may be missing
        self._ids: list[int] = []
        self._turns: list[int] = []  # len(_ids) before each turn
        self._busy = threading.Lock()

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Every id that the next turn sees."""
        return tuple(self._ids)

    @property
    def n_turns(self) -> int:
        """Number of turns that the next one sees."""
        return len(self._turns)

    @property
    def bytes(self) -> int:
        """Size of the session's cache in bytes."""
        return self._cache.bytes

    def generate(
        self,
        prompt: str,
        params: SamplingParams | None = None,
        *,
        cancel: threading.Event | None = None,
        arrived: float | None = None,
    ) -> Reply:
        """The answer to the next prompt; arguments and errors as TextGenerator.generate."""
        return self.stream(prompt, params, cancel=cancel, arrived=arrived).result()

    def stream(
        self,
        prompt: str,
        params: SamplingParams | None = None,
        *,
        cancel: threading.Event | None = None,
        arrived: float | None = None,
    ) -> Stream:
        """The answer piece by piece; arguments and errors as TextGenerator.stream.

        Raises:
            SessionError: another turn is at work, or took place before this stream was begun.
        """
        arrived = perf_counter() if arrived is None else arrived
        ids = self._ids
        turn = self._generator.turn(prompt, params, history=ids, cancel=cancel, arrived=arrived)
        return Stream(turn, self._run(turn, ids))

    def rewind(self, *, turns: int | None = None, tokens: int | None = None) -> None:
        """Forget the last `turns` turns or the last `tokens` ids; give one of the two.

        Raises:
            SessionError: there are not so many, or a turn is at work.
        """
        if (turns is None) == (tokens is None):
            raise SessionError(f"rewind takes either turns or tokens, got {turns!r} and {tokens!r}")
        with self._exclusive():
            if turns is not None:
                if not 0 <= turns <= len(self._turns):
                    raise SessionError(f"cannot rewind {turns} turns of a session with {len(self._turns)}")
                end = self._turns[-turns] if turns else len(self._ids)
            else:
                assert tokens is not None
                if not 0 <= tokens <= len(self._ids):
                    raise SessionError(f"cannot rewind {tokens} tokens of a session with {len(self._ids)}")
                end = len(self._ids) - tokens
            self._ids = self._ids[:end]
            self._turns = [start for start in self._turns if start < end]
            self._cache.rewind(min(self._cache.length, end))

    def fork(self) -> "Session":
        """An independent session that has seen the same; raises SessionError while a turn is at work."""
        with self._exclusive():
            copy = Session(self._generator, self._cache.fork())
            copy._ids, copy._turns = list(self._ids), list(self._turns)
            return copy

    def _run(self, turn: Turn, ids: list[int]) -> Generator[Piece, None, None]:
        with self._exclusive():
            if ids is not self._ids:
                raise SessionError("the session has moved on since this stream was made; make a new one")
            n_cached = self._cache.length
            try:
                yield from turn.run(self._cache)
            finally:
                if turn.token_ids and turn.finish_reason not in ("cancelled", "error"):
                    self._turns.append(len(ids))
                    self._ids = [*turn.context_ids, *turn.token_ids]
                else:
                    self._cache.rewind(n_cached)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise SessionError("the session is at work on another turn; wait for its end or close its stream")
        try:
            yield
        finally:
            self._busy.release()
