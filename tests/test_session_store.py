import pytest
from helpers.scripted import Script, greedy

from edgegpt.errors import ConfigError, OverloadedError, SessionError
from edgegpt.serving import sessions
from edgegpt.serving.sessions import SessionStore

SHORT = greedy(max_new_tokens=2)
ONE = Script("go", "ab").engine.cache_bytes


def make(n_sessions=2, ttl_s=60.0):
    return SessionStore(Script("go", "ab").generator, max_bytes=n_sessions * ONE, ttl_s=ttl_s)


def turn(store, name):
    with store.use(name) as session:
        session.generate("go", SHORT)
        return session


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(sessions, "perf_counter", lambda: now[0])
    return now


def test_a_name_leads_back_to_its_session():
    store = make()
    assert turn(store, "a") is turn(store, "a") is not turn(store, "b")
    assert store.find("a").n_turns == 2
    assert (store.names, store.bytes) == (["a", "b"], 2 * ONE)


def test_the_empty_name_is_no_session():
    store = make(0)
    store.check("")
    with store.use("") as session:
        assert session is None
    assert store.find("") is None
    assert store.names == []


def test_the_least_recently_used_makes_room():
    store = make(2)
    for name in ("a", "b", "a", "c"):
        turn(store, name)
    assert store.names == ["a", "c"]
    assert store.bytes == 2 * ONE


def test_one_in_use_never_makes_room():
    store = make(2)
    turn(store, "b")
    with store.use("a") as a:
        turn(store, "b")
        turn(store, "c")
        assert store.names == ["a", "c"]
        with (
            store.use("c"),
            pytest.raises(
                OverloadedError, match=f"'d' finds no room: the 2 sessions in use take {2 * ONE} of"
            ),
            store.use("d"),
        ):
            pass
        a.generate("go", SHORT)
    assert store.find("a") is a


def test_a_cache_larger_than_the_cap_is_refused():
    store = SessionStore(Script("go", "ab").generator, max_bytes=ONE - 1, ttl_s=60)
    words = f"'a' needs a cache of {ONE} bytes but session_bytes is {ONE - 1}; raise it, or load"
    with pytest.raises(SessionError, match=words):
        store.check("a")
    with pytest.raises(SessionError, match=words), store.use("a"):
        pass


def test_a_refusal_quotes_the_beginning_of_a_long_name_alone():
    store = SessionStore(Script("go", "ab").generator, max_bytes=ONE - 1, ttl_s=60)
    with pytest.raises(SessionError, match=f"session '{'a' * 40}' needs a cache"):
        store.check("a" * 1_000_000)


def test_a_new_session_stays_only_if_its_turn_did():
    store = make()
    with pytest.raises(RuntimeError), store.use("a"):
        raise RuntimeError
    with store.use("b"):
        pass
    assert store.names == []


def test_a_session_is_gone_when_it_was_not_used_for_ttl_s(clock):
    store = make(ttl_s=10)
    first = turn(store, "a")
    clock[0] += 9
    assert turn(store, "a") is first
    clock[0] += 9
    assert store.find("a") is first  # which is no use
    clock[0] += 1
    assert store.find("a") is None
    assert (store.names, store.bytes) == ([], 0)
    assert turn(store, "a") is not first


def test_a_session_does_not_expire_while_it_is_in_use(clock):
    store = make(ttl_s=10)
    with store.use("a") as session:
        clock[0] += 11
        session.generate("go", SHORT)
        assert store.names == ["a"]
    clock[0] += 9
    assert store.names == ["a"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_bytes": -1, "ttl_s": 1}, "session_bytes must be a whole number of at least 0, got -1"),
        ({"max_bytes": 1, "ttl_s": 0}, "session_ttl_s must be a number above 0, got 0"),
        ({"max_bytes": 1, "ttl_s": float("nan")}, "session_ttl_s must be a number above 0, got nan"),
    ],
)
def test_an_option_outside_its_range_is_refused(options, words):
    with pytest.raises(ConfigError, match=words):
        SessionStore(Script("go", "ab").generator, **options)
