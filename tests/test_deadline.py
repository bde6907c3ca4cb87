"""edgegpt.runtime.deadline: when a deadline ends a request, and what the latency estimates learn."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from helpers.scripted import Script, greedy
from helpers.threads import SOON, join, start

from edgegpt.runtime import Reply
from edgegpt.runtime.deadline import EngineLatency, StepLatency

PROMPT = "go left"


def timed(
    answer: str = "x" * 30, prompt: str = PROMPT, seconds: Callable[[int], float] = lambda n_tokens: 0.010
) -> Script:
    """A model whose calls take `seconds(n_tokens)`, warmed up."""
    script = Script(prompt, answer)
    script.seconds = seconds
    script.generator.warm_up()
    script.steps.clear()
    return script


def ask(script: Script, *, waited: float = 0.0, prompt: str = PROMPT, **options: Any) -> Reply:
    """The reply to a request that arrived so many seconds ago."""
    return script.generator.generate(prompt, greedy(**options), arrived=script.clock.now - waited)


def test_the_answer_ends_before_the_deadline_with_the_text_so_far() -> None:
    script = timed()
    began = script.clock.now
    reply = ask(script, deadline_ms=105)
    assert reply.finish_reason == "deadline"
    assert reply.text == "x" * len(reply.token_ids)
    assert 0.07 < script.clock.now - began < 0.105
    assert reply.timing.total_ms < 105


def test_steps_that_become_slower_move_the_stop_forward() -> None:
    script = timed()
    began = script.clock.now
    stream = script.generator.stream(PROMPT, greedy(deadline_ms=200), arrived=began)
    for n, _ in enumerate(stream):
        if n == 3:
            script.seconds = lambda n_tokens: 0.030
    assert stream.result().finish_reason == "deadline"
    assert script.clock.now - began < 0.200


def test_time_in_the_queue_counts() -> None:
    reply = ask(timed(), waited=0.060, deadline_ms=105)
    assert reply.finish_reason == "deadline"
    assert reply.timing.total_ms < 105
    assert reply.timing.queue_ms == pytest.approx(60)
    assert 0 < len(reply.token_ids) < 5


def test_a_deadline_that_has_passed_does_no_work() -> None:
    script = timed()
    reply = ask(script, waited=1, deadline_ms=50)
    assert (reply.text, reply.finish_reason, script.steps) == ("", "deadline", [])
    assert reply.timing.ttft_ms == 0


def test_a_deadline_ends_a_long_prompt_between_two_chunks() -> None:
    prompt = "x" * 40
    script = timed(prompt=prompt, seconds=lambda n_tokens: n_tokens * 0.010)
    script.engine.prefill_chunk = 16
    reply = ask(script, prompt=prompt, deadline_ms=300)
    assert (reply.text, reply.finish_reason) == ("", "deadline")
    assert script.steps == [16]
    assert reply.timing.total_ms < 300


def test_the_consumers_time_is_not_taken_for_the_models() -> None:
    script = timed()
    stream = script.generator.stream(PROMPT, greedy(max_new_tokens=10), arrived=script.clock.now)
    for _ in stream:
        script.clock.now += 5
    assert stream.result().timing.token_max_ms == pytest.approx(10)
    assert ask(script, deadline_ms=60).token_ids


def test_timing_is_read_from_the_steps() -> None:
    timing = ask(timed(), max_new_tokens=5).timing
    assert timing.prefill_ms == timing.ttft_ms == pytest.approx(10)
    assert timing.token_p50_ms == timing.token_p99_ms == pytest.approx(10)
    assert timing.total_ms == pytest.approx(50)


def test_an_estimate_exceeds_the_mean_after_an_outlier_and_forgets_it() -> None:
    latency = StepLatency()
    assert latency.seconds == 0
    for _ in range(50):
        latency.observe(1.0)
    assert latency.seconds == pytest.approx(1.0, abs=0.01)
    latency.observe(2.0)
    assert latency.seconds > 2.0
    for _ in range(30):
        latency.observe(1.0)
    assert latency.seconds == pytest.approx(1.0, abs=0.05)


def test_prompts_and_decode_steps_share_an_estimate_where_one_session_runs_both() -> None:
    together, apart = EngineLatency(), EngineLatency(prefills_apart=True)
    for latency in (together, apart):
        latency.observe_prefill(1, 3.0)
        latency.decode.observe(1.0)
    assert together.prefill(1) == together.decode.mean == 2.75
    assert (apart.prefill(1), apart.decode.mean, apart.decode.seconds) == (3.0, 1.0, 1.5)
    assert not apart.fits(2.0, 1, decoding=False)


@pytest.mark.parametrize(("hiccup", "requests"), [(0.1, 3), (1.0, 7), (30.0, 13)])
@pytest.mark.parametrize("step", [0, 1, 5], ids=["prompt", "answer", "late"])
def test_after_a_hiccup_answers_come_again_in_a_few_requests(hiccup: float, requests: int, step: int) -> None:
    script = timed("abcdefgh", seconds=lambda n_tokens: 0.001)
    calm = script.seconds
    script.seconds = lambda n_tokens: 0.001 + hiccup * (len(script.steps) == step)
    ask(script)
    script.seconds = calm
    reasons = [ask(script, deadline_ms=50).finish_reason for _ in range(40)]
    assert "eos" in reasons[:requests]
    assert set(reasons[15:]) == {"eos"}


def test_a_model_that_never_was_fast_enough_is_refused_again_and_again() -> None:
    script = timed(seconds=lambda n_tokens: 0.1)
    assert {ask(script, deadline_ms=90).finish_reason for _ in range(100)} == {"deadline"}
    assert script.steps == []


def test_requests_that_come_too_late_teach_nothing() -> None:
    script = timed(seconds=lambda n_tokens: 0.1)
    latency = script.generator.latency
    before = latency.decode.seconds, latency.prefill(40)
    for _ in range(100):
        ask(script, waited=1, deadline_ms=50)
    assert (latency.decode.seconds, latency.prefill(40)) == before


def test_the_time_of_a_prompt_is_that_of_a_call_and_of_its_tokens_whatever_lengths_came_before() -> None:
    def seconds(n_tokens: int) -> float:
        return 0.0024 + (n_tokens - 1) * 0.000087

    script = timed(seconds=seconds)
    for prompt in ("a", "go", "x" * 30, "b", "stop", "x" * 15, *("a" for _ in range(20))):
        for n in (1, 2, 16, 40, 64):
            assert script.generator.latency.prefill(n) == pytest.approx(seconds(n), rel=0.02)
        ask(script, prompt=prompt, max_new_tokens=3)


def test_the_wait_for_the_engine_counts_against_the_deadline_and_teaches_nothing() -> None:
    script = timed("abcd", seconds=lambda n_tokens: 0.001)
    reached, go_on = threading.Event(), threading.Event()

    def before_step(n_tokens: int) -> None:
        reached.set()
        assert go_on.wait(SOON)

    script.before_step = before_step
    replies: dict[str, Reply] = {}
    arrived = script.clock.now

    def begin(name: str, **options: Any) -> threading.Thread:
        def work() -> None:
            replies[name] = script.generator.generate(PROMPT, greedy(**options), arrived=arrived)

        return start(work)

    threads = [begin("running")]
    assert reached.wait(SOON)
    for name, options in (("hasty", {"deadline_ms": 50}), ("patient", {})):
        threads.append(begin(name, **options))
        while script.engine.waiting < len(threads) - 1:
            assert threads[-1].is_alive()
    script.clock.now += 1
    go_on.set()
    join(*threads)
    assert (replies["hasty"].finish_reason, replies["hasty"].text) == ("deadline", "")
    assert replies["patient"].text == "abcd"
    timing = replies["patient"].timing
    assert timing.queue_ms >= 1000
    # The clock is shared: a step of one may include those of the other.
    assert timing.token_max_ms < 20
    assert timing.prefill_ms < 20
