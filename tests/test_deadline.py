"""edgegpt.runtime.deadline: when a deadline ends a request, and what the latency estimates learn."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from helpers.scripted import ManualClock, Script, greedy

from edgegpt.runtime.deadline import EngineLatency, StepLatency
from edgegpt.runtime.reply import Reply
from edgegpt.runtime.sampling import SamplingParams

PROMPT = "go left"
STEP = 0.010  # seconds that a call of the scripted model takes


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def timed(
    clock: ManualClock,
    answer: str = "x" * 30,
    prompt: str = PROMPT,
    seconds: Callable[[int], float] = lambda n_tokens: STEP,
) -> Script:
    """A model whose calls take `seconds(n_tokens)`, warmed up."""
    script = Script(prompt, answer, clock=clock)

    def before_step(n_tokens: int) -> None:
        clock.now += seconds(n_tokens)

    script.before_step = before_step
    script.generator.warm_up()
    script.steps.clear()
    return script


def ask(script: Script, clock: ManualClock, **options: Any) -> Reply:
    return script.generator.generate(PROMPT, greedy(**options), arrived=clock.now)


def test_the_answer_ends_before_the_deadline_with_the_text_so_far(clock: ManualClock) -> None:
    script = timed(clock)
    begin = clock.now
    reply = ask(script, clock, deadline_ms=105)
    assert reply.finish_reason == "deadline"
    assert reply.text == "x" * len(reply.token_ids)
    assert 0.07 < clock.now - begin < 0.105
    assert reply.timing.total_ms < 105


def test_an_answer_that_fits_is_not_cut(clock: ManualClock) -> None:
    assert ask(timed(clock, "abc"), clock, deadline_ms=80).finish_reason == "eos"


def test_steps_that_become_slower_move_the_stop_forward(clock: ManualClock) -> None:
    step = [STEP]
    script = timed(clock, seconds=lambda n_tokens: step[0])
    begin = clock.now
    stream = script.generator.stream(PROMPT, greedy(deadline_ms=200), arrived=begin)
    for n, _ in enumerate(stream):
        if n == 3:
            step[0] = 0.030
    assert stream.reply is not None
    assert stream.reply.finish_reason == "deadline"
    assert clock.now - begin < 0.200


def test_time_in_the_queue_counts(clock: ManualClock) -> None:
    script = timed(clock)
    arrived = clock.now
    clock.now += 0.060
    reply = script.generator.generate(PROMPT, greedy(deadline_ms=105), arrived=arrived)
    assert reply.finish_reason == "deadline"
    assert clock.now - arrived < 0.105
    assert reply.timing.queue_ms == pytest.approx(60)
    assert 0 < len(reply.token_ids) < 5


def test_a_deadline_that_has_passed_does_no_work(clock: ManualClock) -> None:
    script = timed(clock)
    arrived = clock.now
    clock.now += 1
    reply = script.generator.generate(PROMPT, greedy(deadline_ms=50), arrived=arrived)
    assert (reply.text, reply.finish_reason, script.steps) == ("", "deadline", [])
    assert reply.timing.ttft_ms == 0


def test_a_deadline_ends_a_long_prompt_between_two_chunks(clock: ManualClock) -> None:
    prompt = "x" * 40
    script = timed(clock, prompt=prompt, seconds=lambda n_tokens: n_tokens * STEP)
    script.engine.prefill_chunk = 16
    begin = clock.now
    reply = script.generator.generate(prompt, greedy(deadline_ms=300), arrived=begin)
    assert (reply.text, reply.finish_reason) == ("", "deadline")
    assert script.steps == [16]
    assert clock.now - begin < 0.300


def test_the_consumers_time_is_not_taken_for_the_models(clock: ManualClock) -> None:
    script = timed(clock)
    stream = script.generator.stream(PROMPT, greedy(max_new_tokens=10), arrived=clock.now)
    for _ in stream:
        clock.now += 5
    assert stream.reply is not None
    assert stream.reply.timing.token_max_ms == pytest.approx(STEP * 1000)
    assert ask(script, clock, deadline_ms=60).token_ids


def test_timing_is_read_from_the_steps(clock: ManualClock) -> None:
    script = timed(clock)
    timing = ask(script, clock, max_new_tokens=5).timing
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
    assert apart.prefill(1) == 3.0
    assert apart.decode.mean == 1.0
    assert not apart.fits(2.0, 1, decoding=False)
    assert apart.decode.seconds == 1.5


# --- one slow step is no reason to refuse for good ---


@pytest.mark.parametrize("hiccup", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("step", [0, 1, 5], ids=["prompt", "answer", "late"])
def test_after_a_hiccup_the_answers_come_again_within_a_few_requests(
    clock: ManualClock, hiccup: float, step: int
) -> None:
    script = timed(clock, "abcdefgh", seconds=lambda n_tokens: 0.001)
    calm = script.before_step

    def before_step(n_tokens: int) -> None:
        calm(n_tokens)
        if len(script.steps) == step:
            script.before_step = calm
            clock.now += hiccup

    script.before_step = before_step
    ask(script, clock)
    reasons = [ask(script, clock, deadline_ms=50).finish_reason for _ in range(40)]
    assert "eos" in reasons[: {0.1: 3, 1.0: 7, 30.0: 13}[hiccup]]
    assert set(reasons[15:]) == {"eos"}


def test_a_model_that_never_was_fast_enough_is_refused_again_and_again(clock: ManualClock) -> None:
    script = timed(clock, seconds=lambda n_tokens: 0.1)
    for _ in range(100):
        assert ask(script, clock, deadline_ms=90).finish_reason == "deadline"
    assert script.steps == []


def test_requests_that_come_too_late_teach_nothing(clock: ManualClock) -> None:
    script = timed(clock, seconds=lambda n_tokens: 0.1)
    latency = script.generator.latency
    before = latency.decode.seconds, latency.prefill(40)
    for _ in range(100):
        script.generator.generate(PROMPT, greedy(deadline_ms=50), arrived=clock.now - 1)
    assert (latency.decode.seconds, latency.prefill(40)) == before


# --- reading a prompt ---


def test_the_time_of_a_prompt_is_that_of_a_call_and_of_its_tokens_whatever_lengths_came_before(
    clock: ManualClock,
) -> None:
    def seconds(n_tokens: int) -> float:
        return 0.0024 + (n_tokens - 1) * 0.000087

    script = timed(clock, seconds=seconds)
    for prompt in ("a", "go", "x" * 30, "b", "stop", "x" * 15, *("a" for _ in range(20))):
        for n in (1, 2, 16, 40, 64):
            assert script.generator.latency.prefill(n) == pytest.approx(seconds(n), rel=0.02)
        script.generator.generate(prompt, greedy(max_new_tokens=3), arrived=clock.now)


# --- with another generation ---


def test_the_wait_for_the_engine_counts_against_the_deadline_and_teaches_nothing(clock: ManualClock) -> None:
    script = timed(clock, "abcd", seconds=lambda n_tokens: 0.001)
    reached, go_on = threading.Event(), threading.Event()

    def before_step(n_tokens: int) -> None:
        if not reached.is_set():
            reached.set()
            assert go_on.wait(10)
        clock.now += 0.001

    script.before_step = before_step
    replies: dict[str, Reply] = {}
    begin = clock.now

    def work(name: str, params: SamplingParams) -> None:
        replies[name] = script.generator.generate(PROMPT, params, arrived=begin)

    threads = [threading.Thread(target=work, args=("running", greedy()))]
    threads[0].start()
    assert reached.wait(10)
    for n, name in enumerate(("hasty", "patient"), start=1):
        threads.append(threading.Thread(target=work, args=(name, greedy(deadline_ms=50 if n == 1 else None))))
        threads[-1].start()
        while script.engine.waiting < n:
            assert threads[-1].is_alive()
    clock.now += 1
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert (replies["hasty"].finish_reason, replies["hasty"].text) == ("deadline", "")
    assert replies["patient"].text == "abcd"
    assert replies["patient"].timing.queue_ms >= 1000
    # The clock is shared: a step of one may include those of the other.
    assert replies["patient"].timing.token_max_ms < 20
    assert replies["patient"].timing.prefill_ms < 20
