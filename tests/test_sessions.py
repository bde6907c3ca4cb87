"""edgegpt.runtime.generator.Session: turns equal a full recompute; a turn that fails changes nothing."""

import threading
from collections.abc import Callable

import pytest
from conftest import Refused
from helpers.scripted import GREEDY, Script, greedy
from helpers.tiny_files import assert_logits, tiny_file, tokenizer, torch_greedy

import edgegpt
from edgegpt.errors import EngineError, PromptError, SessionError
from edgegpt.runtime import SamplingParams, Session, TextGenerator

TURNS = ["go left", "stop", "turn 5"]
SHORT, LONG = greedy(max_new_tokens=4), greedy(max_new_tokens=20)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TextGenerator:
    return edgegpt.load(tiny_file(tmp_path_factory.mktemp("sessions")))


@pytest.fixture
def session(model: TextGenerator) -> Session:
    """One that has had its first turn."""
    session = model.new_session()
    session.generate(TURNS[0], SHORT)
    return session


def state(session: Session) -> tuple[tuple[int, ...], int, int]:
    return session.token_ids, session.n_turns, session._cache.length


def assert_cache_equals_recompute(session: Session) -> None:
    """The next token after the session's cache has the logits of a recompute of all its ids."""
    fork, ids = session.fork(), [*session.token_ids, 65]
    cache = fork._cache
    assert_logits(fork._generator.engine.prefill(cache, ids[cache.length :]), ids)


def assert_turn_is_recompute(session: Session, prompt: str) -> None:
    """The next turn continues as a full recompute of all before it."""
    ids = [*session.token_ids, *tokenizer().encode_prompt(prompt)]
    expected = torch_greedy(ids, 4)
    assert list(session.generate(prompt, SHORT).token_ids) == expected
    assert session.token_ids == (*ids, *expected)
    assert_cache_equals_recompute(session)


def test_each_turn_continues_as_a_full_recompute_of_all_before_it(model: TextGenerator) -> None:
    session = model.new_session()
    assert session.bytes == model.engine.cache_bytes
    for n, prompt in enumerate(TURNS, start=1):
        assert_turn_is_recompute(session, prompt)
        assert session.n_turns == n


def test_a_turn_reads_only_what_is_new() -> None:
    script = Script("go", "ab")
    session = script.generator.new_session()
    assert session.generate("go", GREEDY).usage.cached_tokens == 0
    script.steps.clear()
    second = session.generate("on", greedy(max_new_tokens=1))
    # The prompt of two characters and its end, and the eos that ended the first turn.
    assert script.steps == [4]
    assert second.usage.prompt_tokens == second.usage.cached_tokens + 4


def test_the_next_turn_sees_the_eos_or_the_stop_string_that_ended_the_last() -> None:
    session = Script("go", "abc").generator.new_session()
    ids = (*tokenizer().encode_prompt("go"), *tokenizer().encode("abc"))
    session.generate("go", GREEDY)
    assert session.token_ids == (*ids, tokenizer().eos_id)
    session.rewind(turns=1)
    session.generate("go", greedy(stop="bc"))
    assert session.token_ids == ids


def test_rewinding_turns_makes_them_never_have_been(model: TextGenerator) -> None:
    session, params = model.new_session(), SamplingParams(seed=3, max_new_tokens=4)
    states = [state(session)]
    for prompt in TURNS:
        session.generate(prompt, params)
        states.append(state(session))
    session.rewind(turns=2)
    assert state(session)[:2] == states[1][:2]
    session.generate(TURNS[1], params)
    assert session.token_ids == states[2][0]
    session.rewind(turns=2)
    assert state(session) == states[0]


@pytest.mark.parametrize("tokens", [0, 1, 3, 9, 20])
def test_rewinding_tokens_equals_a_recompute_of_what_is_left(session: Session, tokens: int) -> None:
    session.generate(TURNS[1], SHORT)
    before = session.token_ids
    session.rewind(tokens=tokens)
    assert session.token_ids == before[: len(before) - tokens]
    assert_cache_equals_recompute(session)
    assert_turn_is_recompute(session, "on")


@pytest.mark.parametrize(
    ("how_far", "value"),
    [
        ({"turns": 2}, 2),
        ({"turns": -1}, -1),
        ({"tokens": 99}, 99),
        ({"tokens": -1}, -1),
        ({}, None),
        ({"turns": 1, "tokens": 1}, 1),
    ],
)
def test_a_session_rewinds_only_to_where_it_has_been(
    session: Session, refused: Refused, how_far: dict[str, int], value: object
) -> None:
    before = state(session)
    with refused(SessionError, value):
        session.rewind(**how_far)
    assert state(session) == before


def test_a_fork_and_its_original_go_their_own_ways_at_the_same_time(session: Session) -> None:
    base, fork = session.token_ids, session.fork()
    streams = [fork.stream("turn", SHORT), session.stream("stop", SHORT)]
    for _ in zip(*streams, strict=False):
        pass
    for each, stream, prompt in zip((fork, session), streams, ("turn", "stop"), strict=True):
        stream.result()
        ids = [*base, *tokenizer().encode_prompt(prompt)]
        assert each.token_ids == (*ids, *torch_greedy(ids, 4))
        assert_cache_equals_recompute(each)
    fork.rewind(turns=2)
    assert session.n_turns == 2


def cancelled(session: Session) -> None:
    cancel = threading.Event()
    stream = session.stream(TURNS[1], LONG, cancel=cancel)
    next(stream)
    cancel.set()
    assert stream.result().finish_reason == "cancelled"


def closed(session: Session) -> None:
    with session.stream(TURNS[1], LONG) as stream:
        next(stream)


def forgotten(session: Session) -> None:
    next(session.stream(TURNS[1], LONG))


def never_begun(session: Session) -> None:
    session.stream(TURNS[1], LONG)


def late(session: Session) -> None:
    reply = session.generate(TURNS[1], greedy(deadline_ms=1), arrived=0.0)
    assert (reply.finish_reason, reply.text) == ("deadline", "")


def too_long(session: Session) -> None:
    with pytest.raises(PromptError) as error:
        session.generate("x" * 40, SHORT)
    assert all(str(count) in str(error.value) for count in (41, 48, len(session.token_ids)))


@pytest.mark.parametrize("turn", [cancelled, closed, forgotten, never_begun, late, too_long])
def test_a_turn_without_an_answer_changes_nothing(session: Session, turn: Callable[[Session], None]) -> None:
    before = state(session)
    turn(session)
    assert state(session) == before
    assert_cache_equals_recompute(session)
    assert_turn_is_recompute(session, TURNS[1])


@pytest.mark.parametrize(
    ("raised", "error"), [(RuntimeError("injected"), EngineError), (KeyboardInterrupt(), KeyboardInterrupt)]
)
@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_failed_turn_leaves_the_session_as_it_was(
    step: int, raised: BaseException, error: type[BaseException]
) -> None:
    script = Script("go", "abc")
    session = script.generator.new_session()
    session.generate("go", greedy(max_new_tokens=2))
    before = state(session)
    script.n_prompt = len(session.token_ids) + len(tokenizer().encode_prompt("on"))
    script.fail_at(len(script.steps) + step, raised)
    with pytest.raises(error):
        session.generate("on", GREEDY)
    assert state(session) == before
    assert session.generate("on", GREEDY).text == "abc"
    assert session.n_turns == 2


def test_a_second_turn_a_rewind_and_a_fork_are_refused_while_a_turn_runs(session: Session) -> None:
    stream = session.stream(TURNS[1], SHORT)
    next(stream)
    attempts: list[Callable[[], object]] = [
        lambda: session.generate("stop"),
        lambda: session.rewind(turns=0),
        session.fork,
    ]
    for attempt in attempts:
        with pytest.raises(SessionError):
            attempt()
    stream.result()
    session.generate("stop", SHORT)
    assert session.n_turns == 3


@pytest.mark.parametrize("begun", [False, True])
def test_a_stream_made_before_another_turn_ended_is_refused(session: Session, begun: bool) -> None:
    other = session.stream(TURNS[1], SHORT)
    if begun:
        next(other)
    stale = session.stream(TURNS[2], SHORT)
    other.result()
    with pytest.raises(SessionError):
        next(stale)
    assert session.n_turns == 2


def test_a_stream_made_while_another_turn_runs_works_if_that_one_is_closed(session: Session) -> None:
    before = session.token_ids
    other = session.stream(TURNS[1], LONG)
    for _ in range(4):
        next(other)
    stream = session.stream(TURNS[2], SHORT)
    other.close()
    reply = stream.result()
    ids = [*before, *tokenizer().encode_prompt(TURNS[2])]
    assert list(reply.token_ids) == torch_greedy(ids, 4)
    assert reply.usage.cached_tokens == len(before) - 1
    assert session.token_ids == (*ids, *reply.token_ids)
    assert_cache_equals_recompute(session)
