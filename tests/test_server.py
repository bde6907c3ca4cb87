"""edgegpt.serving.server: answers, overload, deadlines and cancellation."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Refused
from helpers.scripted import ManualClock, greedy
from helpers.serving import ANSWER, PROMPT, SOON, WHOLE, HeldServer, ended_as
from helpers.tiny_files import tiny_file

import edgegpt
from edgegpt.errors import EngineError, OverloadedError, PreemptedError, PromptError, TokenizerError
from edgegpt.runtime.reply import TextChunk
from edgegpt.runtime.sampling import SamplingParams
from edgegpt.serving.request import RequestHandle
from edgegpt.serving.server import GenerationServer


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def held(clock: ManualClock) -> Iterator[HeldServer]:
    with HeldServer(clock=clock) as held:
        yield held


# --- answers ---


def test_a_reply_is_the_generators_and_its_chunks_come_in_order(held: HeldServer) -> None:
    chunks: list[TextChunk] = []
    held.release()
    handle = held.submit(on_chunk=chunks.append)
    assert ended_as(handle) == WHOLE
    assert handle.result() == handle.outcome().reply
    assert [(chunk.index, chunk.text) for chunk in chunks] == list(enumerate(ANSWER))


def test_many_threads_get_the_answers_that_they_would_get_alone(tmp_path: Path) -> None:
    model = edgegpt.load(tiny_file(tmp_path))
    prompts = ["go left", "stop", "turn 5", "café 😀"]
    params = [SamplingParams(seed=n, max_new_tokens=6) for n in range(len(prompts))]
    alone = [model.generate(prompt, param).text for prompt, param in zip(prompts, params, strict=True)]
    texts: list[list[str]] = [[] for _ in prompts]
    with GenerationServer(model, queue_depth=len(prompts)) as server:

        def ask(n: int) -> None:
            for _ in range(10):
                texts[n].append(server.submit(prompts[n], params[n]).result(SOON).text)

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(len(prompts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SOON)
    assert texts == [[text] * 10 for text in alone]


def test_params_default_to_the_generators(held: HeldServer) -> None:
    held.release()
    assert held.submit().request.params is held.script.generator.sampling


def test_waiting_requests_run_by_priority_and_then_by_age(held: HeldServer) -> None:
    held.busy()
    handles = [held.submit(name, priority=n) for name, n in [("a", 0), ("b", 1), ("c", 0), ("d", 1)]]
    held.release()
    assert [ended_as(handle) for handle in handles] == [WHOLE] * 4
    assert held.server.deactivate()
    assert held.ended == ["running", "b", "d", "a", "c"]


def test_a_result_that_is_not_there_in_time_is_a_timeout_and_the_request_goes_on(held: HeldServer) -> None:
    handle = held.busy()
    assert not handle.done()
    with pytest.raises(TimeoutError):
        handle.result(0.001)
    held.release()
    assert ended_as(handle) == WHOLE


@pytest.mark.parametrize(
    ("prompt", "error"), [(" ", PromptError), ("x" * 999, PromptError), ("\ud800", TokenizerError)]
)
def test_an_invalid_prompt_is_refused_at_once_and_disturbs_no_other_request(prompt: str, error: Any) -> None:
    with HeldServer(overload="preempt") as held:
        running = held.busy()
        with pytest.raises(error):
            held.submit(prompt=prompt)
        held.release()
        assert ended_as(running) == WHOLE
        assert held.outcomes() == {"eos": 1, "invalid": 1}


# --- overload ---


def test_reject_refuses_a_second_request_and_takes_one_when_the_first_has_its_outcome() -> None:
    with HeldServer(overload="reject") as held:
        running = held.busy()
        with pytest.raises(OverloadedError):
            held.submit()
        held.release()
        for _ in range(20):
            assert ended_as(running) == WHOLE
            running = held.submit()


def test_queue_refuses_when_it_is_full() -> None:
    with HeldServer(queue_depth=1) as held:
        handles = [held.busy(), held.submit()]
        with pytest.raises(OverloadedError):
            held.submit()
        held.release()
        assert [ended_as(handle) for handle in handles] == [WHOLE] * 2


def test_preempt_ends_the_running_request_once_with_its_text_before_the_next_step(refused: Refused) -> None:
    with HeldServer(overload="preempt") as held:
        running = held.busy(3)
        urgent = held.submit("urgent", priority=1)
        held.release()
        assert ended_as(running) == ("abcd", "cancelled", PreemptedError)
        assert ended_as(urgent) == WHOLE
        assert held.ended == ["running", "urgent"]
        with refused(PreemptedError, "priority 1"):
            running.result()
        # The prompt and three tokens of the one, and then the prompt and all eight of the other.
        assert len(held.script.steps) == 4 + 9


def test_preempt_in_a_burst_ends_each_request_once_and_answers_the_last() -> None:
    with HeldServer(overload="preempt") as held:
        handles = [held.busy(), *(held.submit(str(n)) for n in range(5))]
        held.release()
        assert ended_as(handles[-1]) == WHOLE
        assert ended_as(handles[0]) == ("abc", "cancelled", PreemptedError)
        assert [ended_as(handle) for handle in handles[1:-1]] == [("", "cancelled", PreemptedError)] * 4
        assert sorted(held.ended) == ["0", "1", "2", "3", "4", "running"]


def test_latest_ends_waiting_requests_at_the_next_step_and_lets_the_running_one_finish() -> None:
    with HeldServer(overload="latest") as held:
        running = held.busy()
        stale, fresh = held.submit("stale"), held.submit("fresh")
        held.advance(1)
        assert ended_as(stale) == ("", "cancelled", PreemptedError)
        assert not running.done()
        held.release()
        assert [ended_as(running), ended_as(fresh)] == [WHOLE] * 2


# --- time ---


def test_the_wait_counts_as_queue_ms_and_against_the_deadline(held: HeldServer, clock: ManualClock) -> None:
    running = held.busy()
    patient = held.submit()
    hasty = held.submit(params=greedy(deadline_ms=60))
    clock.now += 0.050
    held.release()
    assert ended_as(running) == ended_as(patient) == ended_as(hasty) == WHOLE
    assert running.result().timing.queue_ms == 0
    assert patient.result().timing.queue_ms == pytest.approx(50)
    assert hasty.result().timing.total_ms == pytest.approx(50)


def test_a_request_ends_when_its_deadline_passes_while_it_waits_and_never_reaches_the_model(
    held: HeldServer, clock: ManualClock
) -> None:
    running = held.busy()
    late = held.submit("late", params=greedy(deadline_ms=60), session="s")
    held.advance(1)
    assert not late.done()
    clock.now += 0.061
    held.advance(1)  # the running one goes on
    assert ended_as(late) == ("", "deadline", None)
    timing = late.result().timing
    assert timing.queue_ms == timing.total_ms == pytest.approx(61)
    held.release()
    assert ended_as(running) == WHOLE
    assert len(held.script.steps) == 1 + len(ANSWER)
    assert held.server.statistics().deadline_misses == 1


def test_a_deadline_that_has_passed_at_arrival_does_no_work(held: HeldServer, clock: ManualClock) -> None:
    handle = held.submit(params=greedy(deadline_ms=10), arrived=clock.now - 1)
    assert ended_as(handle) == ("", "deadline", None)
    assert held.script.steps == []


def test_the_time_of_callbacks_of_waiting_requests_is_not_that_of_a_step(
    held: HeldServer, clock: ManualClock
) -> None:
    held.busy()
    waiting = held.submit()
    waiting.add_done_callback(lambda handle: setattr(clock, "now", clock.now + 5))
    waiting.cancel()
    held.advance(2)
    assert clock.now == 105
    assert held.script.generator.latency.decode.seconds == 0


def test_the_time_of_a_prompt_is_predicted_from_the_steps_before(
    held: HeldServer, clock: ManualClock
) -> None:
    assert held.server.predicted_ms(10) == 0
    held.release()
    held.script.before_step = lambda n_tokens: setattr(clock, "now", clock.now + 0.002 * n_tokens)
    held.script.generator.warm_up()
    assert held.server.predicted_ms(1) == pytest.approx(2)
    assert held.server.predicted_ms(40) == pytest.approx(80)
    count = held.server.count_tokens("x" * 39)
    assert (count.tokens, count.remaining) == (40, 8)
    assert count.predicted_ttft_ms == held.server.predicted_ms(40)
    assert 2 <= count.predicted_token_ms <= 4


def test_count_tokens_knows_the_length_of_a_session_and_creates_none(held: HeldServer) -> None:
    held.release()
    assert held.server.count_tokens(PROMPT, session="s").remaining == 48 - held.script.n_prompt
    reply = held.submit(session="s").result(SOON)
    taken = reply.usage.prompt_tokens + reply.usage.completion_tokens
    count = held.server.count_tokens("x" * 99, session="s")
    assert (count.tokens, count.remaining) == (100, 48 - taken - 100)
    assert held.server.count_tokens(PROMPT, session="other").remaining == 48 - held.script.n_prompt
    assert held.server.statistics().sessions == 1


def test_a_text_far_longer_than_the_context_is_refused_uncounted(held: HeldServer, refused: Refused) -> None:
    most = 16 * held.script.generator.most_bytes
    with refused(PromptError, most + 1, most, 16):
        held.server.count_tokens("x" * (most + 1))
    assert held.server.count_tokens("x" * most).remaining < 0


# --- cancel ---


def test_cancelling_the_running_request_ends_it_before_the_next_step_with_its_text(held: HeldServer) -> None:
    handle = held.busy(3)
    handle.cancel()
    held.release()
    assert ended_as(handle) == ("abcd", "cancelled", None)
    assert len(held.script.steps) == 4
    handle.cancel()  # too late, no effect
    assert ended_as(held.submit()) == WHOLE


def test_cancelling_a_waiting_request_frees_its_place_and_it_ends_at_the_next_step() -> None:
    with HeldServer(queue_depth=1) as held:
        running, waiting = held.busy(), held.submit("waiting")
        waiting.cancel()
        waiting.cancel()
        other = held.submit("other")
        held.advance(1)
        assert ended_as(waiting) == ("", "cancelled", None)
        held.release()
        assert [ended_as(running), ended_as(other)] == [WHOLE] * 2
        assert held.ended == ["waiting", "running", "other"]


def test_the_first_reason_to_end_is_the_one_that_counts() -> None:
    with HeldServer(overload="preempt") as held:
        running = held.busy()
        running.cancel()
        held.submit()
        held.release()
        assert ended_as(running) == ("abc", "cancelled", None)


def test_a_failure_of_the_server_itself_ends_that_request_and_the_next_one_works(
    held: HeldServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(handle: RequestHandle) -> None:
        raise RuntimeError("unexpected")

    held.release()
    with monkeypatch.context() as patch:
        patch.setattr(held.server, "_answer", fail)
        assert ended_as(held.submit()) == ("", "error", EngineError)
    assert ended_as(held.submit()) == WHOLE
