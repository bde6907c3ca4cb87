"""edgegpt.serving.sessions: named sessions, their limit of bytes, LRU and idle-timeout eviction."""

from typing import Any

import pytest
from conftest import Refused
from helpers.scripted import ManualClock, Script, greedy

from edgegpt.errors import ConfigError, OverloadedError, SessionError
from edgegpt.runtime.generator import Session
from edgegpt.serving.sessions import SessionStore

SHORT = greedy(max_new_tokens=2)
ONE = Script("go", "ab").engine.cache_bytes


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def make(n_sessions: int = 2, **options: Any) -> SessionStore:
    return make_bytes(n_sessions * ONE, **options)


def make_bytes(max_bytes: Any, *, ttl_s: float = 60.0, clock: ManualClock | None = None) -> SessionStore:
    generator = Script("go", "ab", clock=clock or ManualClock()).generator
    return SessionStore(generator, max_bytes=max_bytes, ttl_s=ttl_s)


def turn(store: SessionStore, name: str) -> Session:
    with store.use(name) as session:
        assert session is not None
        session.generate("go", SHORT)
        return session


def n_turns(store: SessionStore, name: str) -> int:
    session = store.find(name)
    assert session is not None
    return session.n_turns


def test_a_name_finds_its_session_again() -> None:
    store = make()
    assert turn(store, "a") is turn(store, "a") is not turn(store, "b")
    assert n_turns(store, "a") == 2
    assert (store.names, store.bytes) == (["a", "b"], 2 * ONE)


def test_the_empty_name_has_no_session() -> None:
    store = make(0)
    store.check("")
    with store.use("") as session:
        assert session is None
    assert store.find("") is None
    assert store.names == []


def test_the_least_recently_used_is_evicted() -> None:
    store = make(2)
    for name in ("a", "b", "a", "c"):
        turn(store, name)
    assert store.names == ["a", "c"]
    assert store.bytes == 2 * ONE


def test_one_in_use_is_never_evicted(refused: Refused) -> None:
    store = make(2)
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
    store = make_bytes(ONE - 1)
    with refused(SessionError, "'a'", ONE, ONE - 1):
        store.check("a")
    with refused(SessionError, "'a'", ONE, ONE - 1), store.use("a"):
        pass
    with refused(SessionError, f"'{'a' * 40}'"):
        store.check("a" * 1_000_000)


def test_a_new_session_stays_only_if_its_turn_does() -> None:
    store = make()
    with pytest.raises(RuntimeError), store.use("a"):
        raise RuntimeError
    with store.use("b"):
        pass
    assert store.names == []


def test_a_session_is_gone_when_it_was_not_used_for_ttl_s(clock: ManualClock) -> None:
    store = make(ttl_s=10, clock=clock)
    first = turn(store, "a")
    clock.now += 9
    assert turn(store, "a") is first
    clock.now += 9
    assert store.find("a") is first  # not a use
    clock.now += 1
    assert store.find("a") is None
    assert (store.names, store.bytes) == ([], 0)
    assert turn(store, "a") is not first


def test_a_session_does_not_expire_while_it_is_in_use(clock: ManualClock) -> None:
    store = make(ttl_s=10, clock=clock)
    with store.use("a") as session:
        assert session is not None
        clock.now += 11
        session.generate("go", SHORT)
        assert store.names == ["a"]
    clock.now += 9
    assert store.names == ["a"]


@pytest.mark.parametrize(("max_bytes", "ttl_s", "value"), [(-1, 1, -1), (1, 0, 0), (1, float("nan"), "nan")])
def test_an_option_outside_its_range_is_refused(
    refused: Refused, max_bytes: int, ttl_s: float, value: object
) -> None:
    with refused(ConfigError, value):
        make_bytes(max_bytes, ttl_s=ttl_s)
