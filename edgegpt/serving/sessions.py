"""Named sessions within a limit of bytes, with LRU and idle-timeout eviction."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from edgegpt.errors import ConfigError, OverloadedError, SessionError, whole_number
from edgegpt.runtime import Session, TextGenerator


@dataclass
class _Entry:
    session: Session
    users: int
    last_used: float


class SessionStore:
    """Sessions of one generator by name; usable from any thread.

    A new session whose cache would bring all of them above max_bytes replaces the least recently used,
    never one in use. One that was idle for ttl_s seconds is removed at the next call of any method.

    Raises:
        ConfigError: max_bytes is negative, or ttl_s is not above 0.
    """

    def __init__(self, generator: TextGenerator, *, max_bytes: int, ttl_s: float) -> None:
        if isinstance(ttl_s, bool) or not isinstance(ttl_s, int | float) or not ttl_s > 0:
            raise ConfigError(f"session_ttl_s must be a number above 0, got {ttl_s!r}")
        self._generator = generator
        self._clock = generator.engine.clock
        self._max_bytes = whole_number("session_bytes", max_bytes, ConfigError)
        self._ttl_s = ttl_s
        self._entries: dict[str, _Entry] = {}  # in LRU order
        self._lock = threading.Lock()

    @property
    def names(self) -> list[str]:
        """Session names in LRU order."""
        with self._lock:
            self._drop_expired()
            return list(self._entries)

    @property
    def bytes(self) -> int:
        """Size of the caches of all sessions."""
        with self._lock:
            self._drop_expired()
            return self._bytes()

    def check(self, name: str) -> None:
        """Check that a session of this name is possible, even as the only one.

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
        """Return the session of that name, or None; does not count as a use."""
        with self._lock:
            self._drop_expired()
            entry = self._entries.get(name)
            return None if entry is None else entry.session

    @contextmanager
    def use(self, name: str) -> Iterator[Session | None]:
        """Yield the session of that name, or a new one; None for the empty name.

        A new one is kept only if it has a turn at the end of the block.

        Raises:
            SessionError: its cache is larger than max_bytes, as `check`.
            OverloadedError: its cache does not fit while other sessions are in use.
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
                entry.last_used = self._clock()
                if not entry.users and not entry.session.n_turns and self._entries.get(name) is entry:
                    del self._entries[name]

    def clear(self) -> None:
        """Remove all sessions."""
        with self._lock:
            self._entries.clear()

    def _new_entry(self, name: str) -> _Entry:
        self.check(name)
        idle = [other for other, entry in self._entries.items() if not entry.users]
        while self._bytes() + self._generator.engine.cache_bytes > self._max_bytes:
            if not idle:
                raise OverloadedError(
                    f"session {name[:40]!r} does not fit: the {len(self._entries)} sessions in use take "
                    f"{self._bytes()} of {self._max_bytes} bytes; try again later"
                )
            del self._entries[idle.pop(0)]
        return _Entry(self._generator.new_session(), 0, self._clock())

    def _drop_expired(self) -> None:
        oldest = self._clock() - self._ttl_s
        expired = [n for n, entry in self._entries.items() if not entry.users and entry.last_used <= oldest]
        for name in expired:
            del self._entries[name]

    def _bytes(self) -> int:
        return sum(entry.session.bytes for entry in self._entries.values())
