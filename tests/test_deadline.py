import pytest
from scripted import Clock, Script, greedy

from edgegpt import engine as engine_module
from edgegpt.deadline import Pace

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


def test_a_long_prompt_is_given_up_between_its_pieces(clock, monkeypatch):
    monkeypatch.setattr(engine_module, "PREFILL_CHUNK", 4)
    prompt = "abcdefghijklmnopqrstuvwx"
    script = timed(clock, prompt=prompt, seconds=lambda n_tokens: n_tokens * STEP)
    begin = clock.now
    reply = script.generator.generate(prompt, greedy(deadline_ms=150), arrived=begin)
    assert (reply.text, reply.finish_reason) == ("", "deadline")
    assert script.steps
    assert len(script.steps) < script.n_prompt / 4
    assert clock.now - begin < 0.150


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
    pace = Pace()
    assert pace.seconds == 0
    for _ in range(50):
        pace.note(1.0)
    assert pace.seconds == pytest.approx(1.0, abs=0.01)
    pace.note(2.0)
    assert pace.seconds > 2.0
    for _ in range(30):
        pace.note(1.0)
    assert pace.seconds == pytest.approx(1.0, abs=0.05)
