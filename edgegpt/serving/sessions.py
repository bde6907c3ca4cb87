"""Named sessions that fit into a number of bytes and are forgotten when nobody comes back to them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

from edgegpt.errors import ConfigError, OverloadedError, SessionError
from edgegpt.runtime import Session, TextGenerator


@dataclass
class _Entry:
    session: Session
    users: int
    last_used: float


class SessionStore:
    """Sessions of one generator by name; any thread may ask.

    A new session whose cache would bring all of them above max_bytes takes the place of the least
    recently used, never of one in use. One that nobody used for ttl_s seconds is gone when anything is
    next asked of the store.
    """

    def __init__(self, generator: TextGenerator, *, max_bytes: int, ttl_s: float) -> None:
        if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < 0:
            raise ConfigError(f"session_bytes must be a whole number of at least 0, got {max_bytes!r}")
        if isinstance(ttl_s, bool) or not isinstance(ttl_s, int | float) or not ttl_s > 0:
            raise ConfigError(f"session_ttl_s must be a number above 0, got {ttl_s!r}")
        self._generator = generator
        self._max_bytes = max_bytes
        self._ttl_s = ttl_s
        self._entries: dict[str, _Entry] = {}  # the least recently used first
        self._lock = threading.Lock()

    @property
    def names(self) -> list[str]:
        """Of the sessions, the least recently used first."""
        with self._lock:
            self._drop_expired()
            return list(self._entries)

    @property
    def bytes(self) -> int:
        """What the caches of all sessions take."""
        with self._lock:
            self._drop_expired()
            return self._bytes()

    def check(self, name: str) -> None:
        """Refuse a name that can have no session however few others there are.

        Raises:
            SessionError: one cache is larger than max_bytes.
        """
        size = self._generator.engine.cache_bytes
        if name and size > self._max_bytes:
            raise SessionError(
                f"session {name[:40]!r} needs a cache of {size} bytes but session_bytes is "
                f"{self._max_bytes}; raise it, or load the model with a smaller capacity"
            )

    def find(self, name: str) -> Session | None:
        """The session of that name, if there is one; this is no use of it."""
        with self._lock:
            self._drop_expired()
            entry = self._entries.get(name)
            return None if entry is None else entry.session

    @contextmanager
    def use(self, name: str) -> Iterator[Session | None]:
        """The session of that name, a new one if there is none; None for the empty name.

        A new one stays only if a turn of it did.

        Raises:
            SessionError: its cache can have no room at any time, as `check`.
            OverloadedError: there is no room for its cache while others are in use.
        """
        if not name:
            yield None
            return
        with self._lock:
            self._drop_expired()
            entry = self._entries.pop(name, None) or self._new_entry(name)
            self._entries[name] = entry  # at the end: the most recently used
            entry.users += 1
        try:
            yield entry.session
        finally:
            with self._lock:
                entry.users -= 1
                entry.last_used = perf_counter()
                if not entry.users and not entry.session.n_turns and self._entries.get(name) is entry:
                    del self._entries[name]

    def clear(self) -> None:
        """Forget all sessions."""
        with self._lock:
            self._entries.clear()

    def _new_entry(self, name: str) -> _Entry:
        self.check(name)
        idle = [other for other, entry in self._entries.items() if not entry.users]
        while self._bytes() + self._generator.engine.cache_bytes > self._max_bytes:
            if not idle:
                raise OverloadedError(
                    f"session {name[:40]!r} finds no room: the {len(self._entries)} sessions in use take "
                    f"{self._bytes()} of {self._max_bytes} bytes; try again later"
                )
            del self._entries[idle.pop(0)]
        return _Entry(self._generator.new_session(), 0, perf_counter())

    def _drop_expired(self) -> None:
        oldest = perf_counter() - self._ttl_s
        expired = [n for n, entry in self._entries.items() if not entry.users and entry.last_used <= oldest]
        for name in expired:
            del self._entries[name]

    def _bytes(self) -> int:
        return sum(entry.session.bytes for entry in self._entries.values())
