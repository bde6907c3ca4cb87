import threading

import pytest
from helpers.scripted import Clock, Script, greedy

from edgegpt.runtime.deadline import StepLatency

PROMPT = "go left"
STEP = 0.010  # seconds that a call of the scripted model takes


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def timed(clock, answer="x" * 30, prompt=PROMPT, seconds=lambda n_tokens: STEP):
    script = Script(prompt, answer)

    def before_step(n_tokens):
        clock.now += seconds(n_tokens)

    script.before_step = before_step
    script.generator.warm_up()
    script.steps.clear()
    return script


def ask(script, clock, **options):
    return script.generator.generate(PROMPT, greedy(**options), arrived=clock.now)


def test_the_answer_ends_before_the_deadline_with_the_text_so_far(clock):
    script = timed(clock)
    begin = clock.now
    reply = ask(script, clock, deadline_ms=105)
    assert reply.finish_reason == "deadline"
    assert reply.text == "x" * len(reply.token_ids)
    assert 0.07 < clock.now - begin < 0.105
    assert reply.timing.total_ms < 105


def test_an_answer_that_fits_is_not_cut(clock):
    assert ask(timed(clock, "abc"), clock, deadline_ms=80).finish_reason == "eos"


def test_steps_that_become_slower_move_the_stop_forward(clock):
    pace = [STEP]
    script = timed(clock, seconds=lambda n_tokens: pace[0])
    begin = clock.now
    stream = script.generator.stream(PROMPT, greedy(deadline_ms=200), arrived=begin)
    for n, _ in enumerate(stream):
        if n == 3:
            pace[0] = 0.030
    assert stream.reply.finish_reason == "deadline"
    assert clock.now - begin < 0.200


def test_time_in_the_queue_counts(clock):
    script = timed(clock)
    arrived = clock.now
    clock.now += 0.060
    reply = script.generator.generate(PROMPT, greedy(deadline_ms=105), arrived=arrived)
    assert reply.finish_reason == "deadline"
    assert clock.now - arrived < 0.105
    assert reply.timing.queue_ms == pytest.approx(60)
    assert 0 < len(reply.token_ids) < 5


def test_a_deadline_that_has_passed_does_no_work(clock):
    script = timed(clock)
    arrived = clock.now
    clock.now += 1
    reply = script.generator.generate(PROMPT, greedy(deadline_ms=50), arrived=arrived)
    assert (reply.text, reply.finish_reason, script.steps) == ("", "deadline", [])
    assert reply.timing.ttft_ms == 0


def test_a_long_prompt_is_given_up_between_its_pieces(clock):
    prompt = "x" * 40
    script = timed(clock, prompt=prompt, seconds=lambda n_tokens: n_tokens * STEP)
    script.engine.prefill_chunk = 16
    begin = clock.now
    reply = script.generator.generate(prompt, greedy(deadline_ms=300), arrived=begin)
    assert (reply.text, reply.finish_reason) == ("", "deadline")
    assert script.steps == [16]
    assert clock.now - begin < 0.300


def test_the_consumers_time_is_not_taken_for_the_models(clock):
    script = timed(clock)
    stream = script.generator.stream(PROMPT, greedy(max_new_tokens=10), arrived=clock.now)
    for _ in stream:
        clock.now += 5
    assert stream.reply.timing.token_max_ms == pytest.approx(STEP * 1000)
    assert ask(script, clock, deadline_ms=60).token_ids


def test_timing_is_read_from_the_steps(clock):
    script = timed(clock)
    timing = ask(script, clock, max_new_tokens=5).timing
    assert timing.prefill_ms == timing.ttft_ms == pytest.approx(10)
    assert timing.token_p50_ms == timing.token_p99_ms == pytest.approx(10)
    assert timing.total_ms == pytest.approx(50)


def test_a_pace_expects_more_than_the_mean_after_an_outlier_and_forgets_it():
    pace = StepLatency()
    assert pace.seconds == 0
    for _ in range(50):
        pace.note(1.0)
    assert pace.seconds == pytest.approx(1.0, abs=0.01)
    pace.note(2.0)
    assert pace.seconds > 2.0
    for _ in range(30):
        pace.note(1.0)
    assert pace.seconds == pytest.approx(1.0, abs=0.05)


# --- one slow step is no reason to refuse for good ---


@pytest.mark.parametrize("hiccup", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("step", [0, 1, 5], ids=["in the prompt", "in the answer", "late in the answer"])
def test_after_a_hiccup_the_answers_come_again_within_a_few_requests(clock, hiccup, step):
    script = timed(clock, "abcdefgh", seconds=lambda n_tokens: 0.001)
    calm = script.before_step

    def before_step(n_tokens):
        calm(n_tokens)
        if len(script.steps) == step:
            script.before_step = calm
            clock.now += hiccup

    script.before_step = before_step
    ask(script, clock)
    reasons = [ask(script, clock, deadline_ms=50).finish_reason for _ in range(40)]
    assert "eos" in reasons[: {0.1: 3, 1.0: 7, 30.0: 13}[hiccup]]
    assert set(reasons[15:]) == {"eos"}


def test_a_model_that_never_was_fast_enough_is_refused_again_and_again(clock):
    script = timed(clock, seconds=lambda n_tokens: 0.1)
    for _ in range(100):
        assert ask(script, clock, deadline_ms=90).finish_reason == "deadline"
    assert script.steps == []


def test_requests_that_come_too_late_teach_nothing(clock):
    script = timed(clock, seconds=lambda n_tokens: 0.1)
    pace = script.generator.pace
    before = pace.decode.seconds, pace.prefill(40)
    for _ in range(100):
        script.generator.generate(PROMPT, greedy(deadline_ms=50), arrived=clock.now - 1)
    assert (pace.decode.seconds, pace.prefill(40)) == before


# --- reading a prompt ---


def test_the_time_of_a_prompt_is_a_call_and_so_much_a_token_whatever_lengths_came_before(clock):
    def seconds(n_tokens):
        return 0.0024 + (n_tokens - 1) * 0.000087

    script = timed(clock, seconds=seconds)
    for prompt in ("a", "go", "x" * 30, "b", "stop", "x" * 15, *("a" for _ in range(20))):
        for n in (1, 2, 16, 40, 64):
            assert script.generator.pace.prefill(n) == pytest.approx(seconds(n), rel=0.02)
        script.generator.generate(prompt, greedy(max_new_tokens=3), arrived=clock.now)


# --- beside another generation ---


def test_the_wait_for_the_engine_counts_against_the_deadline_and_teaches_nothing(clock):
    script = timed(clock, "abcd", seconds=lambda n_tokens: 0.001)
    reached, go_on = threading.Event(), threading.Event()

    def before_step(n_tokens):
        if not reached.is_set():
            reached.set()
            assert go_on.wait(10)
        clock.now += 0.001

    script.before_step = before_step
    replies = {}
    begin = clock.now

    def work(name, params):
        replies[name] = script.generator.generate(PROMPT, params, arrived=begin)

    threads = [threading.Thread(target=work, args=("at work", greedy()))]
    threads[0].start()
    assert reached.wait(10)
    for n, name in enumerate(("hasty", "patient"), start=1):
        threads.append(threading.Thread(target=work, args=(name, greedy(deadline_ms=50 if n == 1 else None))))
        threads[-1].start()
        while script.engine._lock.waiting < n:
            assert threads[-1].is_alive()
    clock.now += 1
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert (replies["hasty"].finish_reason, replies["hasty"].text) == ("deadline", "")
    assert replies["patient"].text == "abcd"
    assert replies["patient"].timing.queue_ms >= 1000
    # The clock is everybody's: a step of one may see those of the other.
    assert replies["patient"].timing.token_max_ms < 20
    assert replies["patient"].timing.prefill_ms < 20
