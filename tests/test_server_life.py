"""edgegpt.serving.server: states, failures, callbacks, sessions, and two thousand requests."""

import dataclasses
import gc
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Refused
from helpers.scripted import Script, greedy
from helpers.serving import ANSWER, PROMPT, WHOLE, HeldServer, ended_as
from helpers.threads import SOON

from edgegpt.errors import ConfigError, EngineError, NotActiveError, PreemptedError, PromptError
from edgegpt.serving import GenerationServer, RequestHandle
from edgegpt.serving.stats import LAST_REQUESTS, LAST_TOKENS, OUTCOMES


@pytest.fixture
def held() -> Iterator[HeldServer]:
    with HeldServer() as held:
        yield held


def test_deactivating_ends_all_and_refuses_until_activated(held: HeldServer, refused: Refused) -> None:
    running, waiting = held.busy(), held.submit("waiting")
    assert held.server.deactivate(timeout_s=0) is False  # the model is in a step, and we do not wait
    assert held.server.state == "inactive"
    with refused(NotActiveError, "inactive"):
        held.submit()
    held.release()
    assert held.server.deactivate(SOON) is True
    assert sorted(held.ended) == ["running", "waiting"]
    assert ended_as(running) == ("abc", "cancelled", NotActiveError)
    assert ended_as(waiting) == ("", "cancelled", NotActiveError)
    held.server.activate()
    assert ended_as(held.submit()) == WHOLE
    assert held.outcomes() == {"deactivated": 2, "rejected": 1, "eos": 1}


def test_a_server_may_begin_inactive_and_leaving_a_with_block_closes_it(held: HeldServer) -> None:
    held.release()
    with GenerationServer(held.script.generator, active=False) as server:
        with pytest.raises(NotActiveError):
            server.submit(PROMPT)
        server.activate()
        assert ended_as(server.submit(PROMPT)) == WHOLE
    assert server.state == "closed"


def test_closing_ends_all_and_the_thread_for_good(held: HeldServer, refused: Refused) -> None:
    running = held.busy(session="s")
    assert held.server.close(timeout_s=0) is False
    held.release()
    assert held.server.close(SOON) is True
    assert held.server.close() is True
    assert ended_as(running) == ("abc", "cancelled", NotActiveError)
    assert "edgegpt-engine" not in [thread.name for thread in threading.enumerate()]
    for attempt in (held.submit, held.server.activate):
        with refused(NotActiveError, "closed"):
            attempt()
    assert held.server.deactivate() is True
    statistics = held.server.statistics()
    assert (statistics.state, statistics.sessions) == ("closed", 0)


@pytest.mark.parametrize("stop", ["deactivate", "close"])
def test_a_callback_may_stop_the_server_and_does_not_wait_for_itself(held: HeldServer, stop: str) -> None:
    handle = held.busy()
    answers = []
    handle.add_done_callback(lambda handle: answers.append(getattr(held.server, stop)(SOON)))
    waiting = held.submit()
    held.release()
    assert ended_as(handle) == WHOLE
    assert ended_as(waiting) == ("", "cancelled", NotActiveError)
    assert answers == [False]


@pytest.mark.parametrize(
    "options", [{"overload": "x"}, {"queue_depth": -1}, {"session_bytes": "1"}, {"session_ttl_s": 0}]
)
def test_an_option_outside_its_range_is_refused_and_starts_no_thread(
    held: HeldServer, refused: Refused, options: dict[str, Any]
) -> None:
    before = threading.active_count()
    with refused(ConfigError, *options, *options.values()):
        GenerationServer(held.script.generator, **options)
    assert threading.active_count() == before


@pytest.mark.parametrize("session", ["", "s"])
def test_an_engine_error_fails_its_request_alone(held: HeldServer, refused: Refused, session: str) -> None:
    running, waiting = held.busy(1, session=session), held.submit("waiting")
    held.script.fail_at(3, RuntimeError("injected"))
    held.release()
    assert ended_as(running) == ("abc", "error", EngineError)
    with refused(EngineError, "injected"):
        running.result()
    assert ended_as(waiting) == WHOLE
    assert held.outcomes() == {"failed": 1, "eos": 1}
    assert held.server.statistics().sessions == 0


@pytest.mark.parametrize("error", [ValueError("injected"), SystemExit("injected")])
def test_what_callbacks_raise_is_logged_and_affects_no_request(
    held: HeldServer, error: Any, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[Any] = []

    def fail(value: object) -> None:
        calls.append(value)
        raise error

    running = held.busy(on_chunk=fail)
    waiting, cancelled = held.submit("waiting"), held.submit("cancelled")
    for handle in (running, cancelled):
        handle.add_done_callback(fail)
        handle.add_done_callback(lambda handle: calls.append("after"))
    cancelled.cancel()
    held.release()
    assert [ended_as(handle) for handle in (running, waiting)] == [WHOLE] * 2
    assert held.server.deactivate()
    assert calls[1:] == [cancelled, "after", running, "after"]
    assert calls[0].text == "a"  # and no chunk after it
    assert caplog.text.count("injected") == 3


def test_callbacks_run_on_the_engine_thread_and_at_once_after_the_end(held: HeldServer) -> None:
    threads: list[threading.Thread] = []

    def note(_: object) -> None:
        threads.append(threading.current_thread())

    running, waiting = held.busy(on_chunk=note), held.submit()
    for handle in (running, waiting):
        handle.add_done_callback(note)
    waiting.cancel()
    held.release()
    running.outcome(SOON)
    assert held.server.deactivate()
    assert {thread.name for thread in threads} == {"edgegpt-engine"}
    running.add_done_callback(note)
    assert threads[-1] is threading.current_thread()


def test_a_callback_may_submit_and_cancel() -> None:
    with HeldServer(overload="reject") as held:
        handles: list[RequestHandle] = []
        again = threading.Event()

        def submit(handle: RequestHandle) -> None:
            handles.append(held.submit())
            handles[0].cancel()
            again.set()

        held.submit().add_done_callback(submit)
        held.release()
        assert again.wait(SOON)
        assert ended_as(handles[0]) == ("", "cancelled", None)


def test_turns_of_one_session_alone_go_on_where_the_last_one_ended(held: HeldServer) -> None:
    handles = [held.busy(session="s"), *(held.submit(session=name) for name in ("s", "s", "t", ""))]
    held.release()
    first, *later, apart, without = (handle.result(SOON).usage for handle in handles)
    prompts = [usage.prompt_tokens for usage in (first, *later)]
    assert prompts == sorted(set(prompts))
    assert all(usage.cached_tokens for usage in later)
    assert first.prompt_tokens == apart.prompt_tokens == without.prompt_tokens
    statistics = held.server.statistics()
    assert (statistics.sessions, statistics.session_bytes) == (2, 2 * held.script.engine.cache_bytes)


def test_a_turn_that_deactivation_ends_leaves_its_session_as_it_was(held: HeldServer) -> None:
    held.release()
    usage = held.submit(session="s").result(SOON).usage
    before = held.server.count_tokens(PROMPT, session="s")
    held.hold()
    held.script.n_prompt += usage.prompt_tokens + usage.completion_tokens
    running = held.submit(session="s")
    held.advance(2)
    held.server.deactivate(0)
    held.release()
    assert ended_as(running) == ("abc", "cancelled", NotActiveError)
    held.server.deactivate(SOON)
    after = held.server.count_tokens(PROMPT, session="s")
    assert (after.tokens, after.remaining) == (before.tokens, before.remaining)
    held.server.activate()
    again = held.submit(session="s").result(SOON)
    assert again.text == ANSWER
    assert again.usage.cached_tokens == usage.prompt_tokens + len(ANSWER)


def test_a_prompt_that_does_not_fit_its_session_leaves_it(held: HeldServer, refused: Refused) -> None:
    held.release()
    usage = held.submit(session="s").result(SOON).usage
    before = held.server.count_tokens(PROMPT, session="s")
    handle = held.submit(prompt="x" * 40, session="s")
    assert ended_as(handle) == ("", "error", PromptError)
    with refused(PromptError, usage.prompt_tokens + usage.completion_tokens):
        handle.result()
    assert held.server.count_tokens(PROMPT, session="s").remaining == before.remaining


def test_statistics_hold_the_state_and_the_counts() -> None:
    with HeldServer(overload="preempt", queue_depth=1) as held:
        held.script.seconds = lambda n_tokens: 0.001 * n_tokens
        nothing = held.server.statistics()
        assert (nothing.state, nothing.busy, nothing.waiting, nothing.ttft_p99_ms) == ("active", False, 0, 0)
        assert set(nothing.outcomes) == set(OUTCOMES)
        running, waiting = held.busy(priority=1), held.submit(priority=0)
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
        assert held.outcomes() == {"preempted": 1, "eos": 2, "length": 1, "stop": 1}
        assert (now.busy, now.waiting, now.state) == (False, 0, "inactive")
        assert 0 < now.ttft_p50_ms <= now.ttft_p99_ms
        assert 0 < now.token_p50_ms <= now.token_p99_ms
        with pytest.raises(dataclasses.FrozenInstanceError):
            now.busy = True  # type: ignore[misc]
        with pytest.raises(TypeError):
            now.outcomes["eos"] = 0  # type: ignore[index]
        assert sum(nothing.outcomes.values()) == 0  # a snapshot stays what it was


def test_two_thousand_requests_leave_nothing_behind() -> None:
    session_bytes = 3 * Script(PROMPT, ANSWER).engine.cache_bytes
    with HeldServer(session_bytes=session_bytes) as held:
        held.release()
        held.script.steps = type("Forgetful", (list,), {"append": lambda self, n: None})()
        held.submit(session="s").result(SOON)
        assert held.server.deactivate()
        held.server.activate()
        gc.collect()
        n_objects = len(gc.get_objects())
        gc.disable()  # what is freed below is freed because nothing refers to it
        try:
            alive: weakref.WeakSet[RequestHandle] = weakref.WeakSet()
            for n in range(2000):
                # No session, one that is soon full and from then on fails, and many that are used once.
                session = ("", "s", "", f"s{n}")[n % 4]
                handle = held.server.submit(PROMPT, greedy(max_new_tokens=2), session=session)
                handle.add_done_callback(lambda handle: None)
                alive.add(handle)
                if n % 8 == 3:
                    handle.cancel()
                if n % 8 == 7:
                    handle.outcome(SOON)  # the last of eight, as they run in order
            del handle
            assert held.server.deactivate()
            assert len(alive) == 0
            assert len(gc.get_objects()) - n_objects < 500
        finally:
            gc.enable()
        assert held.server.statistics().sessions == 3
        assert held.outcomes()["invalid"] > 300
        assert len(held.server._tally._ttft_ms) == LAST_REQUESTS
        assert held.server._tally._token_ms.maxlen == LAST_TOKENS


@pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="needs a thread's CPU clock")
def test_an_idle_server_sleeps(held: HeldServer) -> None:
    held.release()
    held.submit().result(SOON)
    assert held.server.deactivate()
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "edgegpt-engine")
    assert thread.ident is not None
    clock = time.pthread_getcpuclockid(thread.ident)
    before = time.clock_gettime(clock)
    time.sleep(0.3)
    assert time.clock_gettime(clock) - before < 0.001
