"""What is chosen from what was measured, and `edgegpt tune` as a user types it. No times."""

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import TINY
from helpers.tiny_files import tiny_file
from hypothesis import given, strategies as st

import edgegpt
from edgegpt.autotune.child import chunks
from edgegpt.autotune.choose import MARGIN, PairedComparison, Ratio, choose
from edgegpt.autotune.run import autotune, thread_counts
from edgegpt.cli.main import main
from edgegpt.errors import MeasureError
from edgegpt.runtime import tuning
from edgegpt.runtime.artifact import file_identity
from edgegpt.runtime.tuning import PREFILL_CHUNK, Tuning


def relative(share: float, doubt: float = 0.01) -> Ratio:
    return Ratio(ms=share, share=share, low=share - doubt, high=share + doubt)


def duel(threads: int, token: float, prompt: dict[int, float], *, spinning: bool = False) -> PairedComparison:
    return PairedComparison(
        threads=threads,
        spinning=spinning,
        cache_fill=160,
        prompt_tokens=128,
        token=relative(token),
        prompt={chunk: relative(share) for chunk, share in prompt.items()},
        session_bytes=1000 * threads,
        waited_percent=0.0,
        round_ms=(1.0,),
    )


ONE = duel(1, 1.0, {16: 1.3, 32: 1.1, 64: 1.0, 128: 0.95})


def chosen(*duels: PairedComparison) -> tuple[int, int, bool, int]:
    tuned = choose(duels).tuning
    return tuned.decode_threads, tuned.prefill_threads, tuned.spinning, tuned.prefill_chunk


# --- the choice ---


def test_what_is_hardly_faster_is_not_worth_the_cores():
    two = duel(2, 0.93, {16: 1.3, 32: 1.1, 64: 0.92, 128: 0.91})
    assert chosen(ONE) == chosen(ONE, two) == (1, 1, False, PREFILL_CHUNK)
    assert choose([ONE, two]).second_session_bytes == 0


def test_what_is_clearly_faster_is_taken_for_what_it_is_faster_at():
    slow, fast = {16: 1.3, 64: 1.0, 128: 1.0}, {16: 0.7, 64: 0.6, 128: 0.58}
    assert chosen(ONE, duel(2, 0.6, slow)) == (2, 2, False, PREFILL_CHUNK)
    assert chosen(ONE, duel(2, 0.6, {16: 1.5, 64: 1.4, 128: 1.4})) == (2, 1, False, PREFILL_CHUNK)
    assert chosen(ONE, duel(2, 1.2, fast)) == (1, 2, False, PREFILL_CHUNK)
    assert chosen(ONE, duel(2, 0.6, fast)) == (2, 2, False, PREFILL_CHUNK)


def test_a_second_session_says_what_memory_it_takes():
    two = duel(2, 1.2, {16: 0.7, 64: 0.6, 128: 0.58})
    choice = choose([ONE, two])
    assert choice.second_session_bytes == 2000
    assert any("in a session of their own" in reason for reason in choice.reasons)
    unknown = two.model_copy(update={"session_bytes": None})
    assert choose([ONE, unknown]).second_session_bytes is None


def test_each_further_thread_has_to_bring_the_margin_again():
    two, three = duel(2, 0.70, {64: 1.0}), duel(3, 0.66, {64: 1.0})
    four = duel(4, 0.5, {64: 1.0})
    assert chosen(ONE, two, three)[0] == 2
    assert chosen(ONE, two, three, four)[0] == 4
    assert chosen(four, three, two, ONE)[0] == 4  # in whatever order they come


def test_threads_that_spin_have_to_beat_those_that_sleep():
    prompt = {64: 1.0}
    two, spinning = duel(2, 0.7, prompt), duel(2, 0.65, prompt, spinning=True)
    assert chosen(ONE, two, spinning)[:3] == (2, 2, False)
    fast = duel(2, 0.5, prompt, spinning=True)
    assert chosen(ONE, two, fast)[:3] == (2, 2, True)


def test_both_sessions_spin_or_none_but_for_one_thread_which_has_nothing_to_wait_for():
    two = duel(2, 0.7, {64: 0.9})
    four = duel(4, 0.7, {64: 0.4}, spinning=True)
    assert chosen(ONE, two, four) == (2, 2, False, PREFILL_CHUNK)
    four = duel(4, 1.2, {64: 0.4}, spinning=True)
    assert chosen(ONE, duel(2, 1.2, {64: 0.95}), four) == (1, 4, True, PREFILL_CHUNK)


def test_a_piece_of_another_length_has_to_bring_the_margin_too():
    assert chosen(ONE)[3] == PREFILL_CHUNK
    assert chosen(duel(1, 1.0, {32: 1.1, 64: 1.0, 128: 0.8})) == (1, 1, False, 128)
    assert chosen(duel(1, 1.0, {16: 0.75, 32: 0.8, 64: 1.0, 128: 1.2})) == (1, 1, False, 32)


def test_what_too_few_rounds_have_measured_changes_nothing():
    two = duel(2, 0.5, {64: 0.5})
    unsure = Ratio(ms=0.5, share=0.5, low=0.0, high=math.inf)
    unsure = two.model_copy(update={"token": unsure, "prompt": {64: unsure}})
    assert chosen(ONE, unsure) == (1, 1, False, PREFILL_CHUNK)


def shares() -> st.SearchStrategy[Ratio]:
    numbers = st.floats(0.05, 5.0)
    return st.tuples(numbers, st.floats(0.0, 0.5)).map(lambda pair: relative(pair[0], pair[0] * pair[1]))


@st.composite
def measured(draw: st.DrawFn) -> list[PairedComparison]:
    cores, lengths = draw(st.integers(1, 6)), draw(st.sampled_from([(64,), (16, 32, 64), (32, 64, 128)]))
    ways = [(n, False) for n in range(1, cores + 1)]
    ways += [(n, True) for n in range(2, cores + 1) if draw(st.booleans())]
    return [
        ONE.model_copy(
            update={
                "threads": n,
                "spinning": spinning,
                "token": draw(shares()),
                "prompt": {length: draw(shares()) for length in lengths},
            }
        )
        for n, spinning in ways
    ]


@given(measured())
def test_every_choice_is_one_that_was_measured_and_pays_for_its_cores(duels):
    choice = choose(duels)
    tuned = choice.tuning
    one = next(duel for duel in duels if duel.threads == 1)

    def way(threads):
        return next(
            d for d in duels if d.threads == threads and d.spinning == (tuned.spinning and threads > 1)
        )

    decode, prefill = way(tuned.decode_threads), way(tuned.prefill_threads)
    if decode is not one:
        assert decode.token.high < (1 - MARGIN) * one.token.low
    if prefill is not decode:
        assert choice.second_session_bytes == prefill.session_bytes
        alone = decode.prompt[PREFILL_CHUNK]
        assert prefill.prompt[tuned.prefill_chunk].high < (1 - MARGIN) * alone.low
    else:
        assert choice.second_session_bytes == 0
    if tuned.prefill_chunk != PREFILL_CHUNK:
        assert prefill.prompt[tuned.prefill_chunk].high < (1 - MARGIN) * decode.prompt[PREFILL_CHUNK].low
    assert not tuned.spinning or max(tuned.decode_threads, tuned.prefill_threads) > 1
    assert choice.reasons
    assert all(reason and not reason.endswith(".") for reason in choice.reasons)


@given(measured(), st.randoms(use_true_random=False))
def test_the_order_of_the_measurements_does_not_matter(duels, random):
    shuffled = list(duels)
    random.shuffle(shuffled)
    assert choose(shuffled) == choose(duels)


# --- what is tried ---


def test_every_number_of_threads_up_to_eight_is_tried_and_two_in_each_doubling_beyond():
    assert thread_counts(1) == [1]
    assert thread_counts(6) == [1, 2, 3, 4, 5, 6]
    assert thread_counts(20) == [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20]
    assert thread_counts(64) == [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64]


@pytest.mark.parametrize(
    ("tokens", "lengths"),
    [(1, (64,)), (16, (64,)), (17, (16, 64)), (64, (16, 32, 64)), (65, (16, 32, 64, 128))],
)
def test_pieces_are_tried_that_cut_the_prompt_and_one_that_does_not(tokens, lengths):
    assert chunks(tokens) == lengths


# --- the command ---


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "edgegpt" / "tuning"


def tuned(capsys, file: Path, *options: str) -> dict:
    assert main(["tune", str(file), "--seconds", "0", "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_tune_measures_every_way_keeps_the_choice_and_says_where(tmp_path, capsys, cache_folder):
    file = tiny_file(tmp_path)
    before = file.read_bytes()
    result = tuned(capsys, file, "--allow-spinning")
    cores = len(os.sched_getaffinity(0))
    ways = [(way["threads"], way["spinning"]) for way in result["measured"]]
    counts = thread_counts(cores)
    assert ways == [*((n, False) for n in counts), *((n, True) for n in counts[1:])]
    assert result["prompt_tokens"] == TINY.block_size - 1
    for way in result["measured"]:
        assert [part["chunk"] for part in way["prompt"]] == [16, 32, 64]
        assert way["rounds"] >= 7
        assert all(part["low"] <= part["share"] <= part["high"] for part in (way["token"], *way["prompt"]))
    assert Path(result["kept"]).is_relative_to(cache_folder)
    assert tuning.find(file_identity(file)) == Tuning(**result["tuning"])
    assert file.read_bytes() == before
    assert edgegpt.load(file).generate("go left").text
    assert main(["info", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs_here_with"] == result["tuning"]


def test_tune_shows_what_was_measured_what_was_chosen_and_why(tmp_path, capsys):
    assert main(["tune", str(tiny_file(tmp_path)), "--seconds", "0"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in ("One further token, 24 in the cache", "A prompt of 47 tokens", "Chosen: ", "to decode"):
        assert words in shown or "one thread, since" in shown
    assert f"Kept in {tmp_path}/cache/edgegpt/tuning/" in shown


def test_tune_tries_only_what_the_process_may_use(tmp_path):
    file, core = tiny_file(tmp_path), min(os.sched_getaffinity(0))
    script = (
        f"import os; os.sched_setaffinity(0, {{{core}}}); from edgegpt.cli.main import main; "
        "raise SystemExit(main(['tune', __import__('sys').argv[1], '--seconds', '0', '--json', "
        "'--allow-spinning']))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=True
    )
    result = json.loads(run.stdout)
    assert [way["threads"] for way in result["measured"]] == [1]
    assert result["machine"]["available_cores"] == 1
    assert result["tuning"]["decode_threads"] == result["tuning"]["prefill_threads"] == 1
    assert result["reasons"][0] == "one thread, since this process may use one core"
    # Kept for that one core: a process that may use more is another machine.
    kept = json.loads(Path(result["kept"]).read_text())
    assert kept["machine"]["cpus"] == [core]
    if len(os.sched_getaffinity(0)) > 1:
        assert tuning.find(file_identity(file)) is None


def test_progress_goes_from_nothing_to_all(tmp_path):
    seen: list[float] = []
    autotune(tiny_file(tmp_path), seconds=0.0, on_progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def refusal(capsys, *arguments: str) -> str:
    assert main(["tune", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return captured.err


def test_bad_input_is_one_sentence(tmp_path, capsys):
    assert "does not exist" in refusal(capsys, str(tmp_path / "none.onnx"))
    assert "the path of the model file is empty" in refusal(capsys, "")
    junk = tmp_path / "junk.onnx"
    junk.write_text("junk")
    assert "is not a whole ONNX file" in refusal(capsys, str(junk))
    assert "is a folder" in refusal(capsys, str(tmp_path))
    file = str(tiny_file(tmp_path))
    assert "-1" in refusal(capsys, file, "--seconds", "-1")
    assert "nan" in refusal(capsys, file, "--seconds", "nan")
    assert "Missing argument" in refusal(capsys)


def test_a_cache_that_cannot_be_written_is_found_before_anything_is_measured(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("edgegpt.autotune.run.run_child", lambda *args, **options: pytest.fail("measured"))
    assert "set XDG_CACHE_HOME to a folder" in refusal(capsys, str(tiny_file(tmp_path)))


def test_a_context_too_short_to_measure_is_refused(tmp_path):
    config = replace(TINY, block_size=2)
    with pytest.raises(
        MeasureError, match="a context of 2 tokens is too short to measure; it needs at least 3"
    ):
        autotune(tiny_file(tmp_path, config=config), seconds=0.0)


@pytest.mark.parametrize("block_size", [3, 5, 17])
def test_a_short_context_is_measured_as_far_as_it_goes(tmp_path, block_size):
    config = replace(TINY, block_size=block_size)
    result = autotune(tiny_file(tmp_path, config=config), seconds=0.0)
    assert result.duels[0].prompt_tokens == block_size - 1
