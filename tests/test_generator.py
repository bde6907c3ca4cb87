"""edgegpt.runtime.generator and stream: text, why an answer ends, usage, failure and cancellation."""

import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import Refused
from helpers.scripted import GREEDY, Script, greedy
from helpers.threads import run_together
from helpers.tiny_files import TINY, tiny_file, tokenizer, torch_greedy
from hypothesis import given, strategies as st

import edgegpt
from edgegpt import contract
from edgegpt.config import ModelConfig
from edgegpt.errors import EngineError, PromptError, TokenizerError
from edgegpt.runtime import Reply, SamplingParams, Stream, TextGenerator, percentile

PROMPT = "go left"
ODD = ModelConfig(vocab_size=272, block_size=48, n_layer=2, n_head=2, n_embd=20)  # 10 numbers a head


def ended(of: Stream | Reply) -> tuple[str, str]:
    """Text and finish reason."""
    reply = of.reply if isinstance(of, Stream) else of
    assert reply is not None
    return reply.text, reply.finish_reason


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TextGenerator:
    return edgegpt.load(tiny_file(tmp_path_factory.mktemp("generator")))


@pytest.mark.parametrize(("target", "config"), [(contract.ENGINE, TINY), (contract.PORTABLE, ODD)])
def test_a_reply_equals_a_full_recompute_in_pytorch(tmp_path: Path, target: str, config: ModelConfig) -> None:
    expected = torch_greedy(tokenizer().encode_prompt(PROMPT), 10, config)
    reply = edgegpt.load(tiny_file(tmp_path, target, config)).generate(PROMPT, greedy(max_new_tokens=10))
    assert list(reply.token_ids) == expected
    assert reply.text == tokenizer().decode(expected)


def test_the_chunks_join_to_the_text_and_have_their_index_and_offset(model: TextGenerator) -> None:
    stream = model.stream(PROMPT, SamplingParams(seed=1, temperature=3.0, max_new_tokens=30))
    text = ""
    for n, chunk in enumerate(stream):
        assert chunk.text
        assert (chunk.index, chunk.byte_offset) == (n, len(text.encode()))
        text += chunk.text
    assert stream.reply is not None
    assert text == stream.reply.text == tokenizer().decode(stream.reply.token_ids)


def test_chunks_hold_whole_characters_and_one_that_was_cut_ends_as_its_ids_decode() -> None:
    generator = Script(PROMPT, "a😀").generator
    assert [chunk.text for chunk in generator.stream(PROMPT, GREEDY)] == ["a", "😀"]
    assert ended(generator.generate(PROMPT, greedy(max_new_tokens=3))) == ("a�", "length")


def test_params_default_to_those_of_the_file(model: TextGenerator) -> None:
    assert model.sampling == SamplingParams(temperature=0.0, max_new_tokens=16)
    assert len(model.generate(PROMPT).token_ids) == 16


def test_the_same_seed_gives_the_same_text_whatever_runs_before_or_meanwhile(model: TextGenerator) -> None:
    params = SamplingParams(seed=9, max_new_tokens=20)
    texts = [model.generate(PROMPT, params).text]
    model.generate("something else", SamplingParams(seed=1))
    other = model.stream("turn right", SamplingParams(seed=2))
    next(other)
    texts.append(model.generate(PROMPT, params).text)
    list(other)
    run_together(*[lambda: texts.append(model.generate(PROMPT, params).text)] * 2)
    assert texts == texts[:1] * 4


@pytest.mark.parametrize(
    ("answer", "options", "end"),
    [
        ("ok", {}, ("ok", "eos")),
        ("ok", {"max_new_tokens": 3}, ("ok", "eos")),  # the third is eos
        ("abcdef", {"max_new_tokens": 3}, ("abc", "length")),
        ("aaab", {"stop": "aab"}, ("a", "stop")),
        ("say END now", {"stop": "END"}, ("say ", "stop")),
        ("say EN", {"stop": "END"}, ("say EN", "eos")),
        ("one. two; three", {"stop": (";", ".")}, ("one", "stop")),
        ("漢字😀x", {"stop": "😀"}, ("漢字", "stop")),
        ("END", {"stop": "END"}, ("", "stop")),
    ],
)
def test_an_answer_ends_without_a_superfluous_step(
    answer: str, options: dict[str, Any], end: tuple[str, str]
) -> None:
    script = Script(PROMPT, answer)
    stream = script.generator.stream(PROMPT, greedy(**options))
    assert "".join(chunk.text for chunk in stream) == end[0]
    assert ended(stream) == end
    assert stream.reply is not None
    tokens = stream.reply.token_ids
    assert (tokens[-1] == tokenizer().eos_id) == (end[1] == "eos")
    assert script.steps == [script.n_prompt, *[1] * (len(tokens) - 1)]


@pytest.mark.parametrize("left", [1, 8])
def test_a_full_context_ends_the_answer(left: int) -> None:
    prompt = "x" * (19 - left)
    reply = Script(prompt, "y" * 100, block_size=20).generator.generate(prompt, GREEDY)
    assert ended(reply) == ("y" * left, "context")
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (20 - left, left)


def test_usage_counts_tokens_and_timing_adds_up(model: TextGenerator) -> None:
    reply = model.generate(PROMPT, greedy(max_new_tokens=10))
    assert reply.usage.prompt_tokens == len(tokenizer().encode_prompt(PROMPT))
    assert (reply.usage.completion_tokens, reply.usage.cached_tokens) == (10, 0)
    timing = reply.timing
    assert timing.ttft_ms == pytest.approx(timing.queue_ms + timing.tokenise_ms + timing.prefill_ms)
    assert 0 < timing.token_p50_ms <= timing.token_p99_ms <= timing.token_max_ms < timing.total_ms


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_the_smallest_value_that_enough_do_not_exceed(values: list[float], q: float) -> None:
    value = percentile(values, q)
    assert value in values
    assert sum(x <= value for x in values) >= q * len(values)
    assert sum(x < value for x in values) < q * len(values)


@pytest.mark.parametrize(
    ("prompt", "error", "values"),
    [
        ("", PromptError, ["''"]),
        (" ", PromptError, ["' '"]),
        ("\n\t  ", PromptError, [r"'\n\t  '"]),
        (None, PromptError, ["NoneType"]),
        (b"go", PromptError, ["bytes"]),
        (5, PromptError, ["int"]),
        ("x" * 47, PromptError, [48, 47]),
        ("go \ud800", TokenizerError, [r"\ud800"]),
    ],
)
def test_a_prompt_that_cannot_be_answered_is_refused_before_any_work(
    refused: Refused, prompt: Any, error: type[Exception], values: list[object]
) -> None:
    script = Script(PROMPT, "never", block_size=47)
    with refused(error, *values):
        script.generator.stream(prompt)
    assert script.steps == []


def test_a_prompt_of_a_megabyte_is_refused_without_tokenising_it(
    model: TextGenerator, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "tokenizer", None)
    with refused(PromptError, 1_000_000, 48):
        model.stream("go " * 333_333 + "!")


def test_nul_and_stray_bytes_are_text_and_count_as_the_bytes_they_are(model: TextGenerator) -> None:
    prompt = "\0" + "\udcff" * 45  # as three bytes of UTF-8 each they might seem too many
    assert model.generate(prompt, greedy(max_new_tokens=1)).usage.prompt_tokens == 47


@pytest.mark.parametrize("step", [0, 1, 3])
@pytest.mark.parametrize(
    ("raised", "error", "reason"),
    [
        (RuntimeError("Non-zero status\nand a paragraph"), EngineError, "error"),
        (KeyboardInterrupt("Non-zero status"), KeyboardInterrupt, "cancelled"),
    ],
    ids=["failure", "Ctrl-C"],
)
def test_a_failure_and_ctrl_c_keep_the_text_so_far_and_the_next_request_works(
    refused: Refused, step: int, raised: BaseException, error: type[Exception], reason: str
) -> None:
    script = Script(PROMPT, "abcdef")
    script.fail_at(step, raised)
    stream = script.generator.stream(PROMPT, GREEDY)
    with refused(error, "Non-zero status"):
        stream.result()
    assert ended(stream) == ("abcdef"[:step], reason)
    assert script.generator.generate(PROMPT, GREEDY).text == "abcdef"


@pytest.mark.parametrize("steps", [0, 4])
def test_a_request_that_is_cancelled_has_the_text_so_far_and_takes_no_further_step(steps: int) -> None:
    script, cancel = Script(PROMPT, "abcdefgh"), threading.Event()

    def before_step(n_tokens: int) -> None:
        if len(script.steps) == steps - 1:
            cancel.set()

    script.before_step = before_step
    if not steps:
        cancel.set()
    reply = script.generator.generate(PROMPT, GREEDY, cancel=cancel)
    assert ended(reply) == ("abcdefgh"[:steps], "cancelled")
    assert len(script.steps) == steps


def test_cancel_on_the_stream_ends_it_with_what_was_held_back() -> None:
    stream = Script(PROMPT, "aEN...").generator.stream(PROMPT, greedy(stop="END"))
    assert next(stream).text == "a"
    stream.cancel()
    assert list(stream) == []
    assert ended(stream) == ("a", "cancelled")


@pytest.mark.parametrize("steps", [0, 2])
def test_closing_a_stream_stops_the_work_and_keeps_what_was_seen(steps: int) -> None:
    script = Script(PROMPT, "abcdef")
    with script.generator.stream(PROMPT, GREEDY) as stream:
        seen = [next(stream).text for _ in range(steps)]
    assert ended(stream) == ("".join(seen), "cancelled")
    assert len(script.steps) == steps
    assert list(stream) == []


@pytest.mark.parametrize("end", ["result", "close", "cancel"])
def test_the_callers_event_is_only_read_and_closing_a_finished_stream_changes_nothing(end: str) -> None:
    script, cancel = Script(PROMPT, "abc"), threading.Event()
    stream = script.generator.stream(PROMPT, GREEDY, cancel=cancel)
    next(stream)
    getattr(stream, end)()
    reply = stream.result()
    stream.close()
    assert stream.reply is reply
    assert reply.finish_reason == ("eos" if end == "result" else "cancelled")
    assert not cancel.is_set()
    assert script.generator.generate(PROMPT, GREEDY, cancel=cancel).text == "abc"


def test_a_stream_asked_by_two_threads_at_once_ends_as_one() -> None:
    script = Script(PROMPT, "abc")
    stream = script.generator.stream(PROMPT, GREEDY)

    def before_step(n_tokens: int) -> None:
        with pytest.raises(ValueError, match="executing"):
            next(stream)
        assert stream.reply is None

    script.before_step = before_step
    assert stream.result().text == "abc"


def test_a_loop_that_breaks_frees_the_cache_for_the_next_request() -> None:
    script = Script(PROMPT, "abc")
    for _ in script.generator.stream(PROMPT, GREEDY):
        break
    assert script.generator.generate(PROMPT, GREEDY).text == "abc"
    assert script.bound == 1


def test_a_smaller_capacity_is_what_the_context_holds(tmp_path: Path, refused: Refused) -> None:
    usage = edgegpt.load(tiny_file(tmp_path), capacity=12).generate(PROMPT, greedy(max_new_tokens=40)).usage
    assert usage.prompt_tokens + usage.completion_tokens == 12
    for capacity in (1, 2):
        tight = edgegpt.load(tiny_file(tmp_path), capacity=capacity)
        with refused(PromptError, f"{capacity} "):
            tight.generate("go left")
