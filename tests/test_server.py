"""edgegpt.serving.server: answers, overload, deadlines and cancellation."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Refused
from helpers.scripted import greedy
from helpers.serving import ANSWER, PROMPT, WHOLE, HeldServer, ended_as
from helpers.threads import SOON, run_together
from helpers.tiny_files import tiny_file

import edgegpt
from edgegpt.errors import (
    EngineError,
    OverloadedError,
    PreemptedError,
    PromptError,
    SessionError,
    TokenizerError,
)
from edgegpt.runtime import SamplingParams, TextChunk
from edgegpt.serving import GenerationServer


@pytest.fixture
def held() -> Iterator[HeldServer]:
    with HeldServer() as held:
        yield held


def test_a_reply_is_the_generators_and_its_chunks_come_in_order(held: HeldServer) -> None:
    chunks: list[TextChunk] = []
    held.release()
    handle = held.submit(on_chunk=chunks.append)
    assert ended_as(handle) == WHOLE
    assert handle.result() == handle.outcome().reply
    assert [(chunk.index, chunk.text) for chunk in chunks] == list(enumerate(ANSWER))


def test_many_threads_get_the_answers_that_they_would_get_alone(tmp_path: Path) -> None:
    model = edgegpt.load(tiny_file(tmp_path))
    asked = {
        prompt: SamplingParams(seed=n, max_new_tokens=6)
        for n, prompt in enumerate(["go left", "stop", "turn 5", "café 😀"])
    }
    texts: list[tuple[str, str]] = []
    with GenerationServer(model, queue_depth=4) as server:

        def ask() -> None:
            for prompt, params in [*asked.items()] * 3:
                texts.append((prompt, server.submit(prompt, params).result(SOON).text))

        run_together(*[ask] * 4)
    assert len(texts) == 4 * 4 * 3
    assert set(texts) == {(prompt, model.generate(prompt, params).text) for prompt, params in asked.items()}


def test_a_result_that_is_not_there_in_time_is_a_timeout_and_the_request_goes_on(held: HeldServer) -> None:
    handle = held.busy()
    assert not handle.done()
    with pytest.raises(TimeoutError):
        handle.result(0.001)
    held.release()
    assert ended_as(handle) == WHOLE


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"prompt": " "}, PromptError),
        ({"prompt": "x" * 999}, PromptError),
        ({"prompt": "\ud800"}, TokenizerError),
        ({"session": "s"}, SessionError),
    ],
)
def test_a_bad_request_is_refused_and_disturbs_no_other(
    options: dict[str, str], error: type[Exception]
) -> None:
    with HeldServer(overload="preempt", session_bytes=100) as held:
        running = held.busy()
        with pytest.raises(error):
            held.submit(**options)  # type: ignore[arg-type]
        held.release()
        assert ended_as(running) == WHOLE
        assert held.outcomes() == {"eos": 1, "invalid": 1}


def test_the_latest_request_replaces_those_that_wait_and_the_running_one_goes_on() -> None:
    with HeldServer(overload="latest") as held:
        running = held.busy()
        waiting, latest = held.submit("waiting"), held.submit("latest")
        held.release()
        assert ended_as(running) == ended_as(latest) == WHOLE
        assert ended_as(waiting)[2] is PreemptedError


def test_reject_refuses_a_second_request_and_takes_one_when_the_first_has_its_outcome() -> None:
    with HeldServer(overload="reject") as held:
        running = held.busy()
        with pytest.raises(OverloadedError):
            held.submit()
        held.release()
        for _ in range(20):
            assert ended_as(running) == WHOLE
            running = held.submit()


def test_preempt_ends_each_but_the_last_before_the_next_step_with_its_text(refused: Refused) -> None:
    with HeldServer(overload="preempt") as held:
        running = held.busy(3)
        burst = [held.submit(str(n), priority=1) for n in range(5)]
        held.release()
        assert ended_as(running) == ("abcd", "cancelled", PreemptedError)
        assert [ended_as(handle) for handle in burst] == [("", "cancelled", PreemptedError)] * 4 + [WHOLE]
        assert sorted(held.ended) == ["0", "1", "2", "3", "4", "running"]
        with refused(PreemptedError, "priority 1"):
            running.result()
        # The prompt and three tokens of the one, and then the prompt and all eight of the other.
        assert len(held.script.steps) == 4 + 9


def test_the_wait_counts_as_queue_ms_and_against_the_deadline(held: HeldServer) -> None:
    running, patient, hasty = held.busy(), held.submit(), held.submit(params=greedy(deadline_ms=60))
    held.clock.now += 0.050
    held.release()
    assert [ended_as(handle) for handle in (running, patient, hasty)] == [WHOLE] * 3
    assert running.result().timing.queue_ms == 0
    assert patient.result().timing.queue_ms == pytest.approx(50)
    assert hasty.result().timing.total_ms == pytest.approx(50)


def test_a_deadline_that_passes_before_a_request_runs_ends_it_without_a_step(held: HeldServer) -> None:
    running = held.busy()
    late = held.submit("late", params=greedy(deadline_ms=60), session="s")
    held.advance(1)
    assert not late.done()
    held.clock.now += 0.061
    held.advance(1)  # the running one goes on
    assert ended_as(late) == ("", "deadline", None)
    timing = late.result().timing
    assert timing.queue_ms == timing.total_ms == pytest.approx(61)
    held.release()
    assert ended_as(running) == WHOLE
    too_late = held.submit(params=greedy(deadline_ms=10), arrived=held.clock.now - 1)
    assert ended_as(too_late) == ("", "deadline", None)
    assert len(held.script.steps) == 1 + len(ANSWER)
    assert held.server.statistics().deadline_misses == 2


def test_the_time_of_callbacks_of_waiting_requests_is_not_that_of_a_step(held: HeldServer) -> None:
    held.busy()
    waiting = held.submit()
    waiting.add_done_callback(lambda handle: setattr(held.clock, "now", held.clock.now + 5))
    waiting.cancel()
    held.advance(2)
    assert held.clock.now == 105
    assert held.script.generator.latency.decode.seconds == 0


def test_the_time_of_a_prompt_is_predicted_from_the_steps_before(held: HeldServer) -> None:
    assert held.server.predicted_ms(10) == 0
    held.release()
    held.script.seconds = lambda n_tokens: 0.002 * n_tokens
    held.script.generator.warm_up()
    assert held.server.predicted_ms(1) == pytest.approx(2)
    assert held.server.predicted_ms(40) == pytest.approx(80)
    count = held.server.count_tokens("x" * 39)
    assert (count.tokens, count.remaining) == (40, 8)
    assert count.predicted_ttft_ms == held.server.predicted_ms(40)
    assert 2 <= count.predicted_token_ms <= 4


def test_count_tokens_knows_a_sessions_length_and_creates_none(held: HeldServer, refused: Refused) -> None:
    held.release()
    assert held.server.count_tokens(PROMPT, session="s").remaining == 48 - held.script.n_prompt
    usage = held.submit(session="s").result(SOON).usage
    taken = usage.prompt_tokens + usage.completion_tokens
    count = held.server.count_tokens("x" * 99, session="s")
    assert (count.tokens, count.remaining) == (100, 48 - taken - 100)
    assert held.server.count_tokens(PROMPT, session="other").remaining == 48 - held.script.n_prompt
    assert held.server.statistics().sessions == 1
    most = 16 * held.script.generator.most_bytes
    with refused(PromptError, most + 1, most, 16):
        held.server.count_tokens("x" * (most + 1))
    assert held.server.count_tokens("x" * most).remaining < 0


def test_cancelling_the_running_request_ends_it_before_the_next_step_whatever_comes_then() -> None:
    with HeldServer(overload="preempt") as held:
        running = held.busy(3)
        running.cancel()
        other = held.submit()  # no reason to end any more
        held.release()
        assert ended_as(running) == ("abcd", "cancelled", None)
        running.cancel()  # too late, no effect
        assert ended_as(other) == WHOLE
        assert len(held.script.steps) == 4 + 9


def test_cancelling_a_waiting_request_frees_its_place_and_it_ends_at_the_next_step() -> None:
    with HeldServer(queue_depth=1) as held:
        running, waiting = held.busy(), held.submit("waiting")
        with pytest.raises(OverloadedError):
            held.submit()
        waiting.cancel()
        waiting.cancel()
        other = held.submit("other")
        held.advance(1)
        assert ended_as(waiting) == ("", "cancelled", None)
        held.release()
        assert [ended_as(running), ended_as(other)] == [WHOLE] * 2
        assert held.ended == ["waiting", "running", "other"]


@pytest.mark.parametrize("calls", range(6))
def test_an_unexpected_error_at_any_moment_fails_its_request_alone(
    calls: int, caplog: pytest.LogCaptureFixture
) -> None:
    moments = iter(range(calls, -1, -1))

    def clock() -> float:
        engine_thread = threading.current_thread().name == "edgegpt-engine"
        return 1 / next(moments, 1) if engine_thread else 0.0

    with HeldServer(clock=clock) as held:
        held.release()
        assert ended_as(held.submit())[1:] == ("error", EngineError)
        assert "ZeroDivisionError" in caplog.text
        assert ended_as(held.submit()) == WHOLE


@pytest.mark.parametrize("priority", ["high", None, 1.5])
def test_a_priority_that_is_no_whole_number_is_refused_and_harms_no_other_request(
    held: HeldServer, refused: Refused, priority: object
) -> None:
    running = held.busy()
    with refused(EngineError, "priority", repr(priority)):
        held.submit(priority=priority)
    urgent = held.submit(priority=5)
    held.release()
    assert ended_as(running) == ended_as(urgent) == WHOLE


def test_a_server_takes_a_generator_and_no_path(refused: Refused) -> None:
    with refused(EngineError, "'rover.onnx'"):
        GenerationServer("rover.onnx")  # type: ignore[arg-type]
