"""edgegpt.serving.sessions: named sessions, their limit of bytes, LRU and idle-timeout eviction."""

from typing import Any

import pytest
from conftest import Refused
from helpers.scripted import Script, greedy

from edgegpt.errors import ConfigError, OverloadedError, SessionError
from edgegpt.runtime import Session
from edgegpt.serving.sessions import SessionStore

SCRIPT = Script("go", "ab")
CLOCK = SCRIPT.clock
ONE = SCRIPT.engine.cache_bytes
SHORT = greedy(max_new_tokens=2)


def make(max_bytes: int = 2 * ONE, ttl_s: Any = 10) -> SessionStore:
    return SessionStore(SCRIPT.generator, max_bytes=max_bytes, ttl_s=ttl_s)


@pytest.fixture
def store() -> SessionStore:
    """One with room for two sessions."""
    return make()


def turn(store: SessionStore, name: str) -> Session:
    with store.use(name) as session:
        assert session is not None
        session.generate("go", SHORT)
        return session


def test_a_name_finds_its_session_again(store: SessionStore) -> None:
    session = turn(store, "a")
    assert turn(store, "a") is session is not turn(store, "b")
    assert store.find("a") is session
    assert session.n_turns == 2
    assert (store.names, store.bytes) == (["a", "b"], 2 * ONE)


def test_the_empty_name_has_no_session() -> None:
    store = make(0)
    store.check("")
    with store.use("") as session:
        assert session is None
    assert store.find("") is None
    assert store.names == []


def test_the_least_recently_used_is_evicted(store: SessionStore) -> None:
    for name in ("a", "b", "a", "c"):
        turn(store, name)
    assert (store.names, store.bytes) == (["a", "c"], 2 * ONE)


def test_one_in_use_is_never_evicted(store: SessionStore, refused: Refused) -> None:
    turn(store, "b")
    with store.use("a") as a:
        assert a is not None
        turn(store, "b")
        turn(store, "c")
        assert store.names == ["a", "c"]
        with store.use("c"), refused(OverloadedError, "'d'", 2 * ONE), store.use("d"):
            pass
        a.generate("go", SHORT)
    assert store.find("a") is a


def test_a_cache_larger_than_the_limit_is_refused_with_the_beginning_of_a_long_name(refused: Refused) -> None:
    store = make(ONE - 1)
    with refused(SessionError, f"'{'a' * 40}'", ONE, ONE - 1):
        store.check("a" * 1_000_000)
    with refused(SessionError, "'a'", ONE, ONE - 1), store.use("a"):
        pass


def test_a_new_session_stays_only_if_its_turn_does(store: SessionStore) -> None:
    with pytest.raises(RuntimeError), store.use("a"):
        raise RuntimeError
    with store.use("b"):
        pass
    assert store.names == []


def test_a_session_is_gone_when_it_was_not_used_for_ttl_s(store: SessionStore) -> None:
    first = turn(store, "a")
    CLOCK.now += 9
    assert turn(store, "a") is first
    CLOCK.now += 9
    assert store.find("a") is first  # not a use
    CLOCK.now += 1
    assert store.find("a") is None
    assert (store.names, store.bytes) == ([], 0)
    assert turn(store, "a") is not first


def test_a_session_does_not_expire_while_it_is_in_use(store: SessionStore) -> None:
    with store.use("a") as session:
        assert session is not None
        CLOCK.now += 11
        session.generate("go", SHORT)
        assert store.names == ["a"]
    CLOCK.now += 9
    assert store.names == ["a"]


def test_an_option_outside_its_range_is_refused(refused: Refused) -> None:
    with refused(ConfigError, -1):
        make(-1, ttl_s=0.5)
    for ttl_s in (0, float("nan")):
        with refused(ConfigError, ttl_s):
            make(ttl_s=ttl_s)
