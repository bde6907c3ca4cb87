"""What a server lives through: states, failures, sessions, and two thousand requests."""

import dataclasses
import gc
import threading
import time
import weakref

import pytest
from helpers.scripted import Script, greedy
from helpers.serving import ANSWER, PROMPT, SOON, Held, ended_as

from edgegpt.errors import (
    ConfigError,
    EngineError,
    NotActiveError,
    PreemptedError,
    PromptError,
    SessionError,
)
from edgegpt.serving.server import GenerationServer
from edgegpt.serving.stats import LAST_REQUESTS, LAST_TOKENS, OUTCOMES

NOTHING = type(None)
WHOLE = (ANSWER, "eos", NOTHING)


@pytest.fixture
def held():
    with Held() as held:
        yield held


def counted(held):
    """The outcomes that are not zero."""
    return {name: n for name, n in held.server.statistics().outcomes.items() if n}


# --- states ---


def test_deactivating_ends_all_with_their_text_and_refuses_until_activated(held):
    running, waiting = held.busy(), held.submit("waiting")
    assert held.server.deactivate(timeout_s=0) is False  # the model is in a step, and we do not wait
    assert held.server.state == "inactive"
    with pytest.raises(NotActiveError, match="the server is inactive and takes no requests"):
        held.submit()
    held.release()
    assert held.server.deactivate(SOON) is True
    assert sorted(held.ended) == ["running", "waiting"]
    assert ended_as(running) == ("abc", "cancelled", NotActiveError)
    assert ended_as(waiting) == ("", "cancelled", NotActiveError)
    held.server.activate()
    assert ended_as(held.submit()) == WHOLE
    assert counted(held) == {"deactivated": 2, "rejected": 1, "eos": 1}


def test_a_server_may_begin_inactive():
    with Held(active=False) as held:
        with pytest.raises(NotActiveError):
            held.submit()
        held.server.activate()
        held.release()
        assert ended_as(held.submit()) == WHOLE


def test_closing_ends_all_and_the_thread_and_nothing_revives_it(held):
    running = held.busy(session="s")
    assert held.server.close(timeout_s=0) is False
    held.release()
    assert held.server.close(SOON) is True
    assert held.server.close() is True
    assert ended_as(running) == ("abc", "cancelled", NotActiveError)
    assert not [t for t in threading.enumerate() if t is held.server._thread]
    with pytest.raises(NotActiveError, match="the server is closed"):
        held.submit()
    with pytest.raises(NotActiveError, match="make a new one"):
        held.server.activate()
    assert held.server.deactivate() is True
    assert held.server.statistics().state == "closed"
    assert held.server.statistics().sessions == 0


def test_leaving_a_with_block_closes_the_server(held):
    with GenerationServer(held.script.generator) as server:
        assert server.state == "active"
    assert server.state == "closed"
    assert not server._thread.is_alive()


@pytest.mark.parametrize("stop", ["deactivate", "close"])
def test_a_callback_may_stop_the_server_and_does_not_wait_for_itself(held, stop):
    ticket = held.busy()
    answers = []
    ticket.add_done_callback(lambda ticket: answers.append(getattr(held.server, stop)(SOON)))
    waiting = held.submit()
    held.release()
    assert ended_as(ticket) == WHOLE
    assert ended_as(waiting) == ("", "cancelled", NotActiveError)
    assert answers == [False]


@pytest.mark.parametrize(
    "options", [{"overload": "x"}, {"queue_depth": -1}, {"session_bytes": "1"}, {"session_ttl_s": 0}]
)
def test_an_option_outside_its_range_is_refused_and_starts_no_thread(held, options):
    before = threading.active_count()
    with pytest.raises(ConfigError, match=next(iter(options))):
        GenerationServer(held.script.generator, **options)
    assert threading.active_count() == before


# --- failures ---


@pytest.mark.parametrize("session", ["", "s"])
def test_an_engine_error_fails_its_request_alone_with_the_text_until_then(held, session):
    def before_step(n_tokens):
        if len(held.script.steps) == 3:
            held.script.before_step = lambda n_tokens: None
            raise RuntimeError("injected")

    running = held.busy(1, session=session)
    waiting = held.submit("waiting")
    held.script.before_step = before_step
    held.release()
    assert ended_as(running) == ("abc", "error", EngineError)
    with pytest.raises(EngineError, match="injected"):
        running.result()
    assert ended_as(waiting) == WHOLE
    assert counted(held) == {"failed": 1, "eos": 1}
    assert held.server.statistics().sessions == 0


def test_an_error_that_nobody_expected_fails_its_request_alone(held, monkeypatch, caplog):
    held.release()
    with monkeypatch.context() as patch:
        patch.setattr("edgegpt.runtime.stream.Turn._piece", lambda self, text: 1 / 0)
        ticket = held.submit()
        assert ended_as(ticket)[1:] == ("error", EngineError)
    assert "division by zero" in str(ticket.outcome().error)
    assert "ZeroDivisionError" in caplog.text
    assert ended_as(held.submit()) == WHOLE


@pytest.mark.parametrize("error", [ValueError("injected"), SystemExit("injected")])
def test_what_callbacks_raise_is_logged_and_harms_nobody(held, error, caplog):
    calls = []

    def fail(value):
        calls.append(value)
        raise error

    running = held.busy(on_piece=fail)
    waiting, cancelled = held.submit("waiting"), held.submit("cancelled")
    for ticket in (running, cancelled):
        ticket.add_done_callback(fail)
        ticket.add_done_callback(lambda ticket: calls.append("after"))
    cancelled.cancel()
    held.release()
    assert [ended_as(ticket) for ticket in (running, waiting)] == [WHOLE] * 2
    assert held.server.deactivate()
    assert calls[1:] == [cancelled, "after", running, "after"]
    assert calls[0].text == "a"  # and no piece after it
    assert caplog.text.count("injected") == 3


def test_callbacks_are_called_on_the_engine_thread_and_at_once_when_it_is_too_late_for_that(held):
    threads = []

    def note(_):
        threads.append(threading.current_thread())

    running = held.busy(on_piece=note)
    waiting = held.submit()
    for ticket in (running, waiting):
        ticket.add_done_callback(note)
    waiting.cancel()
    held.release()
    running.outcome(SOON)
    assert held.server.deactivate()
    assert set(threads) == {held.server._thread}
    running.add_done_callback(note)
    assert threads[-1] is threading.current_thread()


def test_a_callback_may_submit_and_cancel():
    with Held(overload="reject") as held:
        tickets = []
        first = held.submit()
        again = threading.Event()

        def submit(ticket):
            tickets.append(held.submit())
            tickets[0].cancel()
            again.set()

        first.add_done_callback(submit)
        held.release()
        assert again.wait(SOON)
        assert ended_as(tickets[0]) == ("", "cancelled", NOTHING)


# --- sessions ---


def test_a_session_goes_on_where_it_was_left(held):
    held.release()
    first = held.submit(session="s").result(SOON)
    second = held.submit(session="s").result(SOON)
    apart = held.submit(session="t").result(SOON)
    without = held.submit().result(SOON)
    assert second.usage.prompt_tokens > first.usage.prompt_tokens == apart.usage.prompt_tokens
    assert second.usage.cached_tokens > 0
    assert without.usage.prompt_tokens == first.usage.prompt_tokens
    statistics = held.server.statistics()
    assert (statistics.sessions, statistics.session_bytes) == (2, 2 * held.script.engine.cache_bytes)


def test_turns_of_one_session_that_wait_together_run_one_after_another(held):
    running = held.busy(session="s")
    waiting = [held.submit(session="s") for _ in range(2)]
    held.release()
    replies = [ticket.result(SOON) for ticket in (running, *waiting)]
    prompts = [reply.usage.prompt_tokens for reply in replies]
    assert prompts == sorted(set(prompts))
    assert held.server._sessions.find("s").n_turns == 3


@pytest.mark.parametrize("how", ["cancel", "preempt", "deactivate", "error"])
def test_a_turn_that_did_not_end_well_leaves_the_session_as_it_was(how):
    with Held(overload="preempt") as held:
        held.release()
        held.submit(session="s").result(SOON)
        session = held.server._sessions.find("s")
        before = session.token_ids, session.n_turns, session._cache.length
        held.hold()
        held.script.n_prompt += len(session.token_ids)
        running = held.submit(session="s")
        held.advance(2)
        if how == "cancel":
            running.cancel()
        elif how == "preempt":
            held.submit()
        elif how == "deactivate":
            held.server.deactivate(0)
        else:
            held.script.before_step = lambda n_tokens: 1 / 0
        held.release()
        assert running.outcome(SOON).reply.finish_reason == ("error" if how == "error" else "cancelled")
        assert running.outcome().reply.text
        held.server.deactivate(SOON)
        assert (session.token_ids, session.n_turns, session._cache.length) == before
        assert held.server._sessions.find("s") is session


def test_a_session_that_cannot_fit_is_refused_at_once():
    with Held(session_bytes=100, overload="preempt") as held:
        running = held.busy()
        with pytest.raises(SessionError, match=r"'s' needs a cache of \d+ bytes but session_bytes is 100"):
            held.submit(session="s")
        held.release()
        assert ended_as(running) == WHOLE
        assert counted(held) == {"eos": 1, "invalid": 1}


def test_a_prompt_that_does_not_fit_behind_its_session_fails_with_a_sentence(held):
    held.release()
    held.submit(session="s").result(SOON)
    ticket = held.submit(prompt="x" * 40, session="s")
    assert ended_as(ticket) == ("", "error", PromptError)
    assert "taken by the session" in str(ticket.outcome().error)
    assert held.server._sessions.find("s").n_turns == 1


# --- statistics and resources ---


def test_statistics_say_what_is_going_on_and_what_has_been():
    with Held(overload="preempt", queue_depth=1) as held:
        nothing = held.server.statistics()
        assert (nothing.state, nothing.busy, nothing.waiting, nothing.ttft_p99_ms) == ("active", False, 0, 0)
        assert set(nothing.outcomes) == set(OUTCOMES)
        running = held.busy(priority=1)
        waiting = held.submit(priority=0)
        busy = held.server.statistics()
        assert (busy.busy, busy.waiting) == (True, 1)
        urgent = held.submit(priority=1)
        held.release()
        assert ended_as(running)[2] is PreemptedError
        urgent.result(SOON)
        waiting.result(SOON)  # before an equal comes and takes its place
        held.submit(params=greedy(max_new_tokens=3)).result(SOON)
        held.submit(params=greedy(stop="c")).result(SOON)
        assert held.server.deactivate()
        now = held.server.statistics()
        assert counted(held) == {"preempted": 1, "eos": 2, "length": 1, "stop": 1}
        assert (now.busy, now.waiting, now.state) == (False, 0, "inactive")
        assert 0 < now.ttft_p50_ms <= now.ttft_p99_ms
        assert 0 < now.token_p50_ms <= now.token_p99_ms
        with pytest.raises(dataclasses.FrozenInstanceError):
            now.busy = True
        with pytest.raises(TypeError):
            now.outcomes["eos"] = 0
        assert sum(nothing.outcomes.values()) == 0  # a snapshot stays what it was


def test_two_thousand_requests_leave_nothing_behind():
    session_bytes = 3 * Script(PROMPT, ANSWER).engine.cache_bytes
    with Held(session_bytes=session_bytes) as held:
        held.release()
        held.script.steps = type("Forgetful", (list,), {"append": lambda self, n: None})()
        held.submit(session="s").result(SOON)
        assert held.server.deactivate()
        held.server.activate()
        gc.collect()
        n_objects = len(gc.get_objects())
        gc.disable()  # what is freed below is freed because nothing refers to it
        try:
            alive = weakref.WeakSet()
            for n in range(2000):
                # No session, one that is soon full and from then on fails, and many that are used once.
                session = ("", "s", "", f"s{n}")[n % 4]
                ticket = held.server.submit(PROMPT, greedy(max_new_tokens=2), session=session)
                ticket.add_done_callback(lambda ticket: None)
                alive.add(ticket)
                if n % 8 == 3:
                    ticket.cancel()
                if n % 8 == 7:
                    ticket.outcome(SOON)  # the last of eight, as they run in order
            del ticket
            assert held.server.deactivate()
            assert len(alive) == 0
            assert len(gc.get_objects()) - n_objects < 500
        finally:
            gc.enable()
        assert held.server.statistics().sessions == 3
        assert counted(held)["invalid"] > 300
        assert len(held.server._tally._ttft_ms) == LAST_REQUESTS
        assert held.server._tally._token_ms.maxlen == LAST_TOKENS


@pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="needs a thread's CPU clock")
def test_an_idle_server_sleeps(held):
    held.release()
    held.submit().result(SOON)
    assert held.server.deactivate()
    clock = time.pthread_getcpuclockid(held.server._thread.ident)
    before = time.clock_gettime(clock)
    time.sleep(0.3)
    assert time.clock_gettime(clock) - before < 0.001
