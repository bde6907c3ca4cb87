"""edgegpt.runtime.generator and stream: text, why an answer ends, usage, failure and cancellation."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Refused
from helpers.scripted import GREEDY, Script, greedy
from helpers.tiny_files import TINY, tiny_file, tokenizer, torch_greedy, torch_logits
from hypothesis import given, strategies as st

import edgegpt
from edgegpt import contract
from edgegpt.config.model import ModelConfig
from edgegpt.errors import EngineError, NonFiniteLogitsError, PromptError, TokenizerError
from edgegpt.runtime.generator import TextGenerator
from edgegpt.runtime.reply import Reply, percentile
from edgegpt.runtime.sampling import SamplingParams
from edgegpt.runtime.stream import Stream

PROMPT = "go left"
EMOJI = "naïve 😀 漢字 e\u0301!"


def end_of(stream: Stream) -> tuple[str, str]:
    """Text and finish reason of a stream that has ended."""
    assert stream.reply is not None
    return ended(stream.reply)


def ended(reply: Reply) -> tuple[str, str]:
    return reply.text, reply.finish_reason


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TextGenerator:
    return edgegpt.load(tiny_file(tmp_path_factory.mktemp("generator")))


# --- text ---


def test_a_reply_is_what_a_full_recompute_in_pytorch_says(model: TextGenerator) -> None:
    ids = tokenizer().encode_prompt(PROMPT)
    expected = torch_greedy(ids, 10, 270)
    reply = model.generate(PROMPT, greedy(max_new_tokens=10))
    assert list(reply.token_ids) == expected
    assert reply.text == tokenizer().decode(expected)


def test_a_portable_file_with_heads_of_any_size_loads_and_answers(tmp_path: Path) -> None:
    config = ModelConfig(vocab_size=272, block_size=48, n_layer=2, n_head=2, n_embd=20)
    assert config.head_dim % 8
    model = edgegpt.load(tiny_file(tmp_path, contract.PORTABLE, config))
    expected: list[int] = []
    for _ in range(10):
        logits = torch_logits(tokenizer().encode_prompt(PROMPT) + expected, config)
        expected.append(int(logits[:270].argmax()))
    assert list(model.generate(PROMPT, greedy(max_new_tokens=10)).token_ids) == expected


def test_the_chunks_join_to_the_text_and_have_their_index_and_offset(model: TextGenerator) -> None:
    stream = model.stream(PROMPT, SamplingParams(seed=1, temperature=3.0, max_new_tokens=30))
    text = ""
    for n, chunk in enumerate(stream):
        assert chunk.text
        assert (chunk.index, chunk.byte_offset) == (n, len(text.encode()))
        text += chunk.text
    assert stream.reply is not None
    assert text == stream.reply.text == tokenizer().decode(stream.reply.token_ids)


def test_a_character_is_never_cut() -> None:
    script = Script(PROMPT, EMOJI)
    assert len(script.ids) > len(EMOJI)
    chunks = [chunk.text for chunk in script.generator.stream(PROMPT, GREEDY)]
    assert "".join(chunks) == EMOJI
    assert not any("�" in chunk for chunk in chunks)


def test_an_answer_cut_inside_a_character_ends_as_its_ids_decode() -> None:
    script = Script(PROMPT, "a😀")
    assert ended(script.generator.generate(PROMPT, greedy(max_new_tokens=3))) == ("a�", "length")


def test_params_default_to_those_of_the_file(model: TextGenerator) -> None:
    assert model.sampling == SamplingParams(temperature=0.0, max_new_tokens=16)
    assert len(model.generate(PROMPT).token_ids) == 16


def test_the_same_seed_gives_the_same_text_whatever_runs_before_or_meanwhile(model: TextGenerator) -> None:
    params = SamplingParams(seed=9, max_new_tokens=20)
    alone = model.generate(PROMPT, params).text
    model.generate("something else", SamplingParams(seed=1))
    other = model.stream("turn right", SamplingParams(seed=2))
    next(other)
    stream = model.stream(PROMPT, params)
    beside = [stream.result().text]
    list(other)
    thread = threading.Thread(target=lambda: beside.append(model.generate(PROMPT, params).text))
    thread.start()
    beside.append(model.generate(PROMPT, params).text)
    thread.join(30)
    assert beside == [alone] * 3


# --- why it ends ---


def test_eos_ends_the_answer_and_is_not_part_of_it() -> None:
    reply = Script(PROMPT, "ok").generator.generate(PROMPT, GREEDY)
    assert ended(reply) == ("ok", "eos")
    assert reply.token_ids[-1] == tokenizer().eos_id


def test_eos_as_the_last_token_allowed_is_eos() -> None:
    script = Script(PROMPT, "ok")
    assert script.generator.generate(PROMPT, greedy(max_new_tokens=len(script.ids))).finish_reason == "eos"


def test_max_new_tokens_gives_length() -> None:
    reply = Script(PROMPT, "abcdef").generator.generate(PROMPT, greedy(max_new_tokens=3))
    assert ended(reply) == ("abc", "length")
    assert reply.usage.completion_tokens == 3


def test_a_full_context_gives_context() -> None:
    script = Script(PROMPT, "x" * 100, block_size=20)
    reply = script.generator.generate(PROMPT, GREEDY)
    assert reply.finish_reason == "context"
    assert reply.usage.prompt_tokens + reply.usage.completion_tokens == 20


def test_a_prompt_that_leaves_room_for_one_token_gets_one() -> None:
    script = Script("x" * 18, "abc", block_size=20)
    assert script.n_prompt == 19
    reply = script.generator.generate("x" * 18, GREEDY)
    assert ended(reply) == ("a", "context")


def test_no_step_is_run_for_a_token_that_is_not_returned() -> None:
    script = Script(PROMPT, "abcdef")
    script.generator.generate(PROMPT, greedy(max_new_tokens=3))
    assert script.steps == [script.n_prompt, 1, 1]


@pytest.mark.parametrize(
    ("answer", "stop", "text"),
    [
        ("aaab", "aab", "a"),
        ("say END now", "END", "say "),
        ("say EN", "END", "say EN"),
        ("one. two; three", (";", "."), "one"),
        ("漢字😀x", "😀", "漢字"),
        ("END", "END", ""),
    ],
)
def test_a_stop_string_over_several_tokens_ends_the_text_and_never_leaks(
    answer: str, stop: Any, text: str
) -> None:
    stream = Script(PROMPT, answer).generator.stream(PROMPT, greedy(stop=stop))
    assert "".join(chunk.text for chunk in stream) == text
    assert end_of(stream) == (text, "eos" if text == answer else "stop")


@given(st.text("ab", max_size=20), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3))
def test_text_and_stop_strings_agree_with_brute_force(answer: str, stops: list[str]) -> None:
    reply = Script(PROMPT, answer).generator.generate(PROMPT, greedy(stop=tuple(stops)))
    ends = [end for end in range(len(answer) + 1) if any(answer[:end].endswith(stop) for stop in stops)]
    if ends:
        longest = max((stop for stop in stops if answer[: ends[0]].endswith(stop)), key=len)
        assert ended(reply) == (answer[: ends[0] - len(longest)], "stop")
    else:
        assert ended(reply) == (answer, "eos")


# --- usage and timing ---


def test_usage_counts_tokens_and_timing_adds_up(model: TextGenerator) -> None:
    reply = model.generate(PROMPT, greedy(max_new_tokens=10))
    assert reply.usage.prompt_tokens == len(tokenizer().encode_prompt(PROMPT))
    assert (reply.usage.completion_tokens, reply.usage.cached_tokens) == (10, 0)
    timing = reply.timing
    parts = timing.queue_ms + timing.tokenise_ms + timing.prefill_ms
    assert timing.ttft_ms == pytest.approx(parts)
    assert timing.ttft_ms + 9 * timing.token_p50_ms > 0
    assert 0 < timing.token_p50_ms <= timing.token_p99_ms <= timing.token_max_ms < timing.total_ms


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_the_smallest_value_that_enough_do_not_exceed(values: list[float], q: float) -> None:
    value = percentile(values, q)
    assert value in values
    assert sum(x <= value for x in values) >= q * len(values)
    assert sum(x < value for x in values) < q * len(values)


# --- prompts that cannot be answered ---


@pytest.mark.parametrize(
    ("prompt", "value"),
    [("", "''"), (" ", "' '"), ("\n\t  ", "empty"), (None, "NoneType"), (b"go", "bytes"), (5, "int")],
)
def test_a_prompt_that_is_empty_or_no_text_is_refused(
    model: TextGenerator, refused: Refused, prompt: Any, value: str
) -> None:
    with refused(PromptError, value):
        model.stream(prompt)


def test_a_prompt_over_the_context_is_refused_with_both_counts_before_any_work(refused: Refused) -> None:
    script = Script(PROMPT, "never", block_size=47)
    with refused(PromptError, 48, 47):
        script.generator.stream("x" * 47)
    assert script.steps == []


def test_a_prompt_of_a_megabyte_is_refused_without_tokenising_it(
    model: TextGenerator, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "tokenizer", None)
    with refused(PromptError, 1_000_000, 48):
        model.stream("go " * 333_333 + "!")


def test_a_lone_surrogate_is_refused_and_nul_is_text(model: TextGenerator, refused: Refused) -> None:
    with refused(TokenizerError, r"\ud800"):
        model.stream("go \ud800")
    assert model.generate("go\0left").usage.completion_tokens == 16


def test_stray_bytes_are_counted_as_the_bytes_they_are(model: TextGenerator) -> None:
    prompt = "\udcff" * 46  # as three bytes of UTF-8 each they might seem too many
    assert model.generate(prompt, greedy(max_new_tokens=1)).usage.prompt_tokens == 47


# --- failure, cancellation, closing ---


@pytest.mark.parametrize("step", [0, 1, 3])
def test_an_engine_error_is_typed_keeps_the_text_so_far_and_the_next_request_works(
    refused: Refused, step: int
) -> None:
    script = Script(PROMPT, "abcdef")
    script.fail_at(step, RuntimeError("Non-zero status code\nand a paragraph"))
    stream = script.generator.stream(PROMPT, GREEDY)
    with refused(EngineError, "Non-zero status code"):
        stream.result()
    assert end_of(stream) == ("abcdef"[:step], "error")
    assert script.generator.generate(PROMPT, GREEDY).text == "abcdef"


def test_logits_that_are_not_finite_end_the_request_and_the_next_one_works() -> None:
    script = Script(PROMPT, "abc")
    script.after_step = lambda logits: logits.fill(np.nan)
    with pytest.raises(NonFiniteLogitsError):
        script.generator.generate(PROMPT, GREEDY)
    script.after_step = lambda logits: None
    assert script.generator.generate(PROMPT, GREEDY).text == "abc"


def test_cancelling_from_another_thread_gives_the_text_so_far() -> None:
    script = Script(PROMPT, "abcdefgh")
    cancel, reached, go_on = threading.Event(), threading.Event(), threading.Event()

    def before_step(n_tokens: int) -> None:
        if len(script.steps) == 3:
            reached.set()
            go_on.wait(10)

    script.before_step = before_step
    replies: list[Reply] = []
    thread = threading.Thread(
        target=lambda: replies.append(script.generator.generate(PROMPT, GREEDY, cancel=cancel))
    )
    thread.start()
    assert reached.wait(10)
    cancel.set()
    go_on.set()
    thread.join(10)
    assert ended(replies[0]) == ("abcd", "cancelled")
    assert len(script.steps) == 4


def test_a_request_cancelled_before_it_begins_does_no_work() -> None:
    script = Script(PROMPT, "abc")
    cancel = threading.Event()
    cancel.set()
    reply = script.generator.generate(PROMPT, GREEDY, cancel=cancel)
    assert (*ended(reply), script.steps) == ("", "cancelled", [])


def test_cancel_on_the_stream_ends_it_with_what_was_held_back() -> None:
    stream = Script(PROMPT, "aEN...").generator.stream(PROMPT, greedy(stop="END"))
    assert next(stream).text == "a"
    stream.cancel()
    assert list(stream) == []
    assert end_of(stream) == ("a", "cancelled")


def test_closing_a_stream_stops_the_work_and_keeps_what_was_seen() -> None:
    script = Script(PROMPT, "abcdef")
    with script.generator.stream(PROMPT, GREEDY) as stream:
        seen = [next(stream).text, next(stream).text]
    assert end_of(stream) == ("".join(seen), "cancelled")
    assert len(script.steps) == 2
    assert list(stream) == []


def test_closing_a_stream_that_was_never_begun_does_no_work() -> None:
    script = Script(PROMPT, "abc")
    stream = script.generator.stream(PROMPT, GREEDY)
    stream.close()
    assert (*end_of(stream), script.steps) == ("", "cancelled", [])


def test_a_stream_asked_by_two_threads_at_once_ends_as_one() -> None:
    script = Script(PROMPT, "abc")
    stream = script.generator.stream(PROMPT, GREEDY)

    def before_step(n_tokens: int) -> None:
        with pytest.raises(ValueError, match="executing"):
            next(stream)
        assert stream.reply is None

    script.before_step = before_step
    assert stream.result().text == "abc"


def test_closing_a_finished_stream_changes_nothing() -> None:
    stream = Script(PROMPT, "abc").generator.stream(PROMPT, GREEDY)
    reply = stream.result()
    stream.close()
    assert stream.reply is reply
    assert reply.finish_reason == "eos"


@pytest.mark.parametrize("end", ["result", "close", "cancel"])
def test_the_callers_event_is_only_read(end: str) -> None:
    cancel = threading.Event()
    script = Script(PROMPT, "abc")
    with script.generator.stream(PROMPT, GREEDY, cancel=cancel) as stream:
        next(stream)
        getattr(stream, end)()
        assert stream.result().finish_reason == ("eos" if end == "result" else "cancelled")
    assert not cancel.is_set()
    assert script.generator.generate(PROMPT, GREEDY, cancel=cancel).text == "abc"


@pytest.mark.parametrize("step", [0, 2])
def test_ctrl_c_cancels_a_stream_and_the_next_request_works(step: int) -> None:
    script = Script(PROMPT, "abcdef")
    script.fail_at(step, KeyboardInterrupt())
    stream = script.generator.stream(PROMPT, GREEDY)
    with pytest.raises(KeyboardInterrupt):
        stream.result()
    assert end_of(stream) == ("abcdef"[:step], "cancelled")
    assert script.generator.generate(PROMPT, GREEDY).text == "abcdef"


def test_a_loop_that_breaks_frees_the_cache_for_the_next_request() -> None:
    script = Script(PROMPT, "abc")
    for _ in script.generator.stream(PROMPT, GREEDY):
        break
    assert script.generator.generate(PROMPT, GREEDY).text == "abc"
    assert script.bound == 1


def test_a_smaller_capacity_is_what_the_context_holds(tmp_path: Path, refused: Refused) -> None:
    model = edgegpt.load(tiny_file(tmp_path), capacity=12)
    assert model.engine.cache_bytes == 2 * TINY.n_layer * TINY.n_embd * 12 * 4
    reply = model.generate(PROMPT, greedy(max_new_tokens=40))
    assert reply.usage.prompt_tokens + reply.usage.completion_tokens == 12
    for capacity in (1, 2):
        tight = edgegpt.load(tiny_file(tmp_path), capacity=capacity)
        with refused(PromptError, f"{capacity} "):
            tight.generate("go left")
