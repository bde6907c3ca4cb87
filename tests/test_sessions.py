"""edgegpt.runtime.generator.Session: turns equal a full recompute; a turn that fails changes nothing."""

import threading
from collections.abc import Callable

import numpy as np
import pytest
from conftest import Refused
from helpers.scripted import GREEDY, Script, greedy
from helpers.tiny_files import tiny_file, tokenizer, torch_greedy, torch_logits

import edgegpt
from edgegpt.errors import EngineError, PromptError, SessionError
from edgegpt.runtime.generator import Session, TextGenerator
from edgegpt.runtime.sampling import SamplingParams

TURNS = ["go left", "stop", "turn 5"]
SHORT = greedy(max_new_tokens=4)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TextGenerator:
    return edgegpt.load(tiny_file(tmp_path_factory.mktemp("sessions")))


def state(session: Session) -> tuple[tuple[int, ...], int, int]:
    return session.token_ids, session.n_turns, session._cache.length


def assert_cache_equals_recompute(session: Session) -> None:
    """The next token after the session's cache has the logits of a recompute of all its ids."""
    fork = session.fork()
    cache = fork._cache
    ids = list(session.token_ids)
    logits = fork._generator.engine.prefill(cache, [*ids[cache.length :], 65])
    assert logits is not None
    np.testing.assert_allclose(logits, torch_logits([*ids, 65])[:270].numpy(), atol=1e-4, rtol=0)


def test_each_turn_continues_as_a_full_recompute_of_all_before_it(model: TextGenerator) -> None:
    session = model.new_session()
    ids: list[int] = []
    for prompt in TURNS:
        ids += tokenizer().encode_prompt(prompt)
        expected = torch_greedy(ids, 4, 270)
        reply = session.generate(prompt, SHORT)
        assert list(reply.token_ids) == expected
        ids += expected
        assert session.token_ids == tuple(ids)
        assert_cache_equals_recompute(session)


def test_a_turn_reads_only_what_is_new() -> None:
    script = Script("go", "ab")
    session = script.generator.new_session()
    first = session.generate("go", GREEDY)
    assert first.usage.cached_tokens == 0
    script.steps.clear()
    second = session.generate("on", greedy(max_new_tokens=1))
    # The prompt of two characters and its end, and the eos that ended the first turn.
    assert script.steps == [4]
    assert second.usage.prompt_tokens == second.usage.cached_tokens + 4


def test_the_next_turn_sees_the_eos_or_the_stop_string_that_ended_the_last() -> None:
    script = Script("go", "abc")
    session = script.generator.new_session()
    session.generate("go", GREEDY)
    assert session.token_ids == (
        *tokenizer().encode_prompt("go"),
        *tokenizer().encode("abc"),
        tokenizer().eos_id,
    )
    session.rewind(turns=1)
    session.generate("go", greedy(stop="bc"))
    assert session.token_ids == (*tokenizer().encode_prompt("go"), *tokenizer().encode("abc"))


def test_rewinding_turns_makes_them_never_have_been(model: TextGenerator) -> None:
    session = model.new_session()
    states = [state(session)]
    for prompt in TURNS:
        session.generate(prompt, SHORT)
        states.append(state(session))
    session.rewind(turns=2)
    assert session.token_ids == states[1][0]
    assert session.n_turns == 1
    again = session.generate(TURNS[1], SHORT)
    assert session.token_ids == states[2][0]
    assert again.token_ids == states[2][0][-4:]
    session.rewind(turns=2)
    assert state(session) == states[0]


@pytest.mark.parametrize("tokens", [0, 1, 3, 9, 20])
def test_rewinding_tokens_equals_a_recompute_of_what_is_left(model: TextGenerator, tokens: int) -> None:
    session = model.new_session()
    for prompt in TURNS[:2]:
        session.generate(prompt, SHORT)
    before = session.token_ids
    session.rewind(tokens=tokens)
    left = before[: len(before) - tokens]
    assert session.token_ids == left
    assert_cache_equals_recompute(session)
    ids = [*left, *tokenizer().encode_prompt("on")]
    assert list(session.generate("on", SHORT).token_ids) == torch_greedy(ids, 4, 270)


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
    model: TextGenerator, refused: Refused, how_far: dict[str, int], value: object
) -> None:
    session = model.new_session()
    session.generate("go", SHORT)
    before = state(session)
    with refused(SessionError, value):
        session.rewind(**how_far)
    assert state(session) == before


def test_a_fork_and_its_original_go_their_own_ways(model: TextGenerator) -> None:
    session = model.new_session()
    session.generate(TURNS[0], SHORT)
    fork = session.fork()
    base = list(session.token_ids)
    for each, prompt in ((fork, "turn"), (session, "stop")):
        ids = base + tokenizer().encode_prompt(prompt)
        assert list(each.generate(prompt, SHORT).token_ids) == torch_greedy(ids, 4, 270)
        assert_cache_equals_recompute(each)
    fork.rewind(turns=2)
    assert session.n_turns == 2


def test_concurrent_sessions_do_not_see_each_other(model: TextGenerator) -> None:
    sessions = [model.new_session() for _ in range(2)]
    streams = [session.stream(TURNS[n], greedy(max_new_tokens=10)) for n, session in enumerate(sessions)]
    for _ in zip(*streams, strict=False):
        pass
    for n, (session, stream) in enumerate(zip(sessions, streams, strict=True)):
        stream.result()
        ids = tokenizer().encode_prompt(TURNS[n])
        assert session.token_ids == (*ids, *torch_greedy(ids, 10, 270))


def test_a_seeded_turn_gives_the_same_text_again(model: TextGenerator) -> None:
    session = model.new_session()
    session.generate(TURNS[0], SHORT)
    params = SamplingParams(seed=3, max_new_tokens=10)
    text = session.generate(TURNS[1], params).text
    session.rewind(turns=1)
    model.generate("something else")
    assert session.generate(TURNS[1], params).text == text


# --- turns that fail ---


def test_a_turn_over_the_context_is_refused_with_all_counts_and_leaves_the_session(
    model: TextGenerator, refused: Refused
) -> None:
    session = model.new_session()
    session.generate(TURNS[0], SHORT)
    before = state(session)
    taken = len(session.token_ids)
    with refused(PromptError, 41, 48, taken):
        session.generate("x" * 40, SHORT)
    assert state(session) == before


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_failed_turn_leaves_the_session_as_it_was(refused: Refused, step: int) -> None:
    script = Script("go", "abc")
    session = script.generator.new_session()
    session.generate("go", greedy(max_new_tokens=2))
    before = state(session)
    script.n_prompt = len(session.token_ids) + len(tokenizer().encode_prompt("on"))
    script.steps.clear()

    script.fail_at(step, RuntimeError("injected"))
    with refused(EngineError, "injected"):
        session.generate("on", GREEDY)
    assert state(session) == before
    session.generate("on", SHORT)
    assert session.n_turns == 2


def test_a_cancelled_turn_leaves_the_session_as_it_was(model: TextGenerator) -> None:
    session = model.new_session()
    session.generate(TURNS[0], SHORT)
    before = state(session)
    cancel = threading.Event()
    stream = session.stream(TURNS[1], greedy(max_new_tokens=20), cancel=cancel)
    next(stream)
    cancel.set()
    assert stream.result().finish_reason == "cancelled"
    assert state(session) == before
    assert_cache_equals_recompute(session)


def test_a_closed_or_forgotten_stream_leaves_the_session_as_it_was(model: TextGenerator) -> None:
    session = model.new_session()
    session.generate(TURNS[0], SHORT)
    before = state(session)
    with session.stream(TURNS[1], greedy(max_new_tokens=20)) as stream:
        next(stream)
    assert state(session) == before
    forgotten = session.stream(TURNS[1], greedy(max_new_tokens=20))
    next(forgotten)
    del forgotten
    assert state(session) == before
    session.stream(TURNS[1])  # never begun
    assert session.generate(TURNS[1], SHORT).finish_reason == "length"


def test_a_turn_that_its_deadline_gave_no_token_leaves_the_session_as_it_was(model: TextGenerator) -> None:
    session = model.new_session()
    session.generate(TURNS[0], SHORT)
    before = state(session)
    reply = session.generate(TURNS[1], greedy(deadline_ms=1), arrived=0.0)
    assert (reply.finish_reason, reply.text) == ("deadline", "")
    assert state(session) == before


# --- one turn at a time ---


def test_a_second_turn_a_rewind_and_a_fork_are_refused_while_a_turn_runs(model: TextGenerator) -> None:
    session = model.new_session()
    stream = session.stream(TURNS[0], greedy(max_new_tokens=8))
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
    assert session.n_turns == 2


def test_a_stream_made_before_another_turn_is_refused(model: TextGenerator) -> None:
    session = model.new_session()
    stale = session.stream(TURNS[0], SHORT)
    session.generate(TURNS[1], SHORT)
    with pytest.raises(SessionError):
        next(stale)
    assert session.n_turns == 1


@pytest.mark.parametrize("how", ["closed", "ended"])
def test_a_stream_made_while_another_turn_runs_works_only_if_that_one_is_closed(
    model: TextGenerator, how: str
) -> None:
    session = model.new_session()
    session.generate(TURNS[0], SHORT)
    before = session.token_ids
    first = session.stream(TURNS[1], greedy(max_new_tokens=20))
    for _ in range(4):
        next(first)
    second = session.stream(TURNS[2], SHORT)
    if how == "ended":
        first.result()
        with pytest.raises(SessionError):
            second.result()
        return
    first.close()
    reply = second.result()
    ids = [*before, *tokenizer().encode_prompt(TURNS[2])]
    assert list(reply.token_ids) == torch_greedy(ids, 4, 270)
    assert reply.usage.cached_tokens == len(before) - 1
    assert session.token_ids == (*ids, *reply.token_ids)
    assert_cache_equals_recompute(session)


def test_ctrl_c_in_a_turn_leaves_the_session_as_it_was() -> None:
    script = Script("go", "abc")
    session = script.generator.new_session()
    session.generate("go", greedy(max_new_tokens=2))
    before = state(session)

    script.fail_at(len(script.steps), KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        session.generate("on", GREEDY)
    assert state(session) == before
    session.generate("on", SHORT)


def test_a_session_knows_the_bytes_of_its_cache(model: TextGenerator) -> None:
    assert model.new_session().bytes == model.engine.cache_bytes
