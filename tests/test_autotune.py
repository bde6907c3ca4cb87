"""What is chosen from what was measured, and `edgegpt tune` as a user types it. No times."""

import json
import math
import os
import subprocess
import sys
from dataclasses import astuple, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from conftest import TINY, CommandError, Refused
from helpers.tiny_files import tiny_file
from hypothesis import given, strategies as st

import edgegpt
from edgegpt.autotune.child import chunks
from edgegpt.autotune.choose import MARGIN, PairedComparison, Ratio, choose
from edgegpt.autotune.run import autotune, thread_counts
from edgegpt.cli.main import main
from edgegpt.errors import MeasureError
from edgegpt.runtime import PREFILL_CHUNK, Tuning, file_identity, tuning

Capture = pytest.CaptureFixture[str]


def ratio(share: float, doubt: float = 0.01) -> Ratio:
    return Ratio(ms=share, share=share, low=share - doubt, high=share + doubt)


def compared(
    threads: int, token: float, prompt: dict[int, float], *, spinning: bool = False
) -> PairedComparison:
    """Return times as shares of those with one thread: of a decode step, and of a prompt by chunk."""
    chunks = {chunk: ratio(share) for chunk, share in prompt.items()}
    return PairedComparison(threads, spinning, 160, 128, ratio(token), chunks, 1000 * threads, 0.0, (1.0,))


def spins(threads: int, token: float, prompt: dict[int, float]) -> PairedComparison:
    return compared(threads, token, prompt, spinning=True)


ONE = compared(1, 1.0, {16: 1.3, 32: 1.1, 64: 1.0, 128: 0.95})


UNSURE = Ratio(ms=0.5, share=0.5, low=0.0, high=math.inf)
PROMPT_FASTER = compared(2, 1.2, {16: 0.7, 64: 0.6, 128: 0.58})


# The choice


@pytest.mark.parametrize(
    ("others", "decode", "prefill", "spinning"),
    [
        ([], 1, 1, False),
        # Threads that are hardly faster are not worth the cores; clearly faster ones are used for what they
        # are faster at.
        ([compared(2, 0.93, {16: 1.3, 32: 1.1, 64: 0.92, 128: 0.91})], 1, 1, False),
        ([compared(2, 0.6, {16: 1.3, 64: 1.0, 128: 1.0})], 2, 2, False),
        ([compared(2, 0.6, {16: 1.5, 64: 1.4, 128: 1.4})], 2, 1, False),
        ([PROMPT_FASTER], 1, 2, False),
        ([compared(2, 0.6, {16: 0.7, 64: 0.6, 128: 0.58})], 2, 2, False),
        # Each further thread has to bring the margin again.
        ([compared(2, 0.7, {64: 1.0}), compared(3, 0.66, {64: 1.0})], 2, 2, False),
        (
            [compared(2, 0.7, {64: 1.0}), compared(3, 0.66, {64: 1.0}), compared(4, 0.5, {64: 1.0})],
            4,
            4,
            False,
        ),
        # Threads that spin have to beat those that sleep.
        ([compared(2, 0.7, {64: 1.0}), spins(2, 0.65, {64: 1.0})], 2, 2, False),
        ([compared(2, 0.7, {64: 1.0}), spins(2, 0.5, {64: 1.0})], 2, 2, True),
        # Both sessions spin or none, but for one thread, which has nothing to wait for.
        ([compared(2, 0.7, {64: 0.9}), spins(4, 0.7, {64: 0.4})], 2, 2, False),
        ([compared(2, 1.2, {64: 0.95}), spins(4, 1.2, {64: 0.4})], 1, 4, True),
        # Too few rounds change nothing.
        ([replace(PROMPT_FASTER, token=UNSURE, prompt={64: UNSURE})], 1, 1, False),
    ],
)
def test_threads_are_used_where_they_are_clearly_faster(
    others: list[PairedComparison], decode: int, prefill: int, spinning: bool
) -> None:
    assert astuple(choose([ONE, *others]).tuning) == (decode, prefill, spinning, PREFILL_CHUNK)


@pytest.mark.parametrize(
    ("prompt", "chunk"),
    [
        ({32: 1.1, 64: 1.0, 128: 0.95}, PREFILL_CHUNK),
        ({32: 1.1, 64: 1.0, 128: 0.8}, 128),
        ({16: 0.75, 32: 0.8, 64: 1.0, 128: 1.2}, 32),
    ],
)
def test_another_prefill_chunk_has_to_bring_the_margin_too(prompt: dict[int, float], chunk: int) -> None:
    assert astuple(choose([compared(1, 1.0, prompt)]).tuning) == (1, 1, False, chunk)


@pytest.mark.parametrize("memory", [2000, None])
def test_a_second_session_comes_with_the_memory_it_takes(memory: int | None) -> None:
    assert choose([ONE, replace(PROMPT_FASTER, session_bytes=memory)]).second_session_bytes == memory


def ratios() -> st.SearchStrategy[Ratio]:
    numbers = st.floats(0.05, 5.0)
    return st.tuples(numbers, st.floats(0.0, 0.5)).map(lambda pair: ratio(pair[0], pair[0] * pair[1]))


@st.composite
def measured(draw: st.DrawFn) -> list[PairedComparison]:
    cores, lengths = draw(st.integers(1, 6)), draw(st.sampled_from([(64,), (16, 32, 64), (32, 64, 128)]))
    settings = [(n, False) for n in range(1, cores + 1)]
    settings += [(n, True) for n in range(2, cores + 1) if draw(st.booleans())]
    return [
        replace(
            ONE,
            threads=n,
            spinning=spinning,
            token=draw(ratios()),
            prompt={m: draw(ratios()) for m in lengths},
        )
        for n, spinning in settings
    ]


@given(measured())
def test_every_choice_was_measured_and_pays_for_its_cores(comparisons: list[PairedComparison]) -> None:
    choice = choose(comparisons)
    tuned = choice.tuning
    one = next(part for part in comparisons if part.threads == 1)

    def setting(threads: int) -> PairedComparison:
        spinning = tuned.spinning and threads > 1
        return next(part for part in comparisons if (part.threads, part.spinning) == (threads, spinning))

    decode, prefill = setting(tuned.decode_threads), setting(tuned.prefill_threads)
    if decode is not one:
        assert decode.token.high < (1 - MARGIN) * one.token.low
    assert choice.second_session_bytes == (0 if prefill is decode else prefill.session_bytes)
    if prefill is not decode or tuned.prefill_chunk != PREFILL_CHUNK:
        assert prefill.prompt[tuned.prefill_chunk].high < (1 - MARGIN) * decode.prompt[PREFILL_CHUNK].low
    assert not tuned.spinning or max(tuned.decode_threads, tuned.prefill_threads) > 1
    assert choice.reasons
    assert all(reason and not reason.endswith(".") for reason in choice.reasons)


@given(measured(), st.randoms(use_true_random=False))
def test_the_order_of_the_measurements_does_not_matter(
    comparisons: list[PairedComparison], random: Random
) -> None:
    shuffled = list(comparisons)
    random.shuffle(shuffled)
    assert choose(shuffled) == choose(comparisons)


# What is tried


def test_every_number_of_threads_up_to_eight_is_tried_and_two_in_each_doubling_above() -> None:
    assert [thread_counts(n) for n in range(1, 9)] == [list(range(1, n + 1)) for n in range(1, 9)]
    assert thread_counts(20) == [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20]
    assert thread_counts(64) == [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64]


@pytest.mark.parametrize(
    ("tokens", "lengths"),
    [(1, (64,)), (16, (64,)), (17, (16, 64)), (64, (16, 32, 64)), (65, (16, 32, 64, 128))],
)
def test_chunks_are_tried_that_split_the_prompt_and_one_that_does_not(
    tokens: int, lengths: tuple[int, ...]
) -> None:
    assert chunks(tokens) == lengths


# The command


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "edgegpt" / "tuning"


def test_tune_measures_every_setting_and_stores_the_choice_where_load_finds_it(
    tmp_path: Path, capsys: Capture, cache_folder: Path
) -> None:
    file = tiny_file(tmp_path)
    before = file.read_bytes()
    assert main(["tune", str(file), "--seconds", "0", "--json", "--allow-spinning"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    counts = thread_counts(len(os.sched_getaffinity(0)))
    settings = [(one["threads"], one["spinning"]) for one in result["measured"]]
    assert settings == [*((n, False) for n in counts), *((n, True) for n in counts[1:])]
    assert result["prompt_tokens"] == TINY.block_size - 1
    for one in result["measured"]:
        assert [part["chunk"] for part in one["prompt"]] == [16, 32, 64]
        assert one["rounds"] >= 7
        assert all(part["low"] <= part["share"] <= part["high"] for part in (one["token"], *one["prompt"]))
    assert Path(result["kept"]).is_relative_to(cache_folder)
    assert tuning.find(file_identity(file)) == Tuning(**result["tuning"])
    assert main(["info", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs_here_with"] == result["tuning"]
    assert file.read_bytes() == before
    assert main(["tune", str(file), "--seconds", "0"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert [word for word in ("24", "47", f"{cache_folder}/") if word not in shown] == []
    assert edgegpt.load(file).generate("go left").text


def test_tune_tries_only_the_cores_that_the_process_may_use(tmp_path: Path) -> None:
    file, core = tiny_file(tmp_path), min(os.sched_getaffinity(0))
    script = (
        f"import os, sys; os.sched_setaffinity(0, {{{core}}}); from edgegpt.cli.main import main; "
        "sys.exit(main(['tune', sys.argv[1], '--seconds', '0', '--json', '--allow-spinning']))"
    )
    command = [sys.executable, "-c", script, str(file)]
    result = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert [one["threads"] for one in result["measured"]] == [1]
    assert result["machine"]["available_cores"] == 1
    assert result["tuning"]["decode_threads"] == result["tuning"]["prefill_threads"] == 1
    assert result["noise"] == []  # there was nothing to choose from
    # Stored for that one core: a process that may use more is another machine.
    stored = json.loads(Path(result["kept"]).read_text())
    assert stored["machine"]["cpus"] == [core]
    if len(os.sched_getaffinity(0)) > 1:
        assert tuning.find(file_identity(file)) is None


def test_bad_input_is_one_sentence_with_the_value(tmp_path: Path, command_error: CommandError) -> None:
    junk, file = tmp_path / "junk.onnx", tiny_file(tmp_path)
    junk.write_text("junk")
    for path in (tmp_path / "none.onnx", junk, tmp_path):
        assert str(path) in command_error("tune", path)
    for seconds in ("-1", "nan"):
        assert seconds in command_error("tune", file, "--seconds", seconds)
    assert "empty" in command_error("tune", "")
    assert "FILE.onnx" in command_error("tune")


def test_a_cache_that_cannot_be_written_is_found_before_anything_is_measured(
    tmp_path: Path, command_error: CommandError, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("edgegpt.autotune.run.run_child", lambda *args, **options: pytest.fail("measured"))
    assert "XDG_CACHE_HOME" in command_error("tune", tiny_file(tmp_path))


def test_a_context_too_short_to_measure_is_refused(tmp_path: Path, refused: Refused) -> None:
    with refused(MeasureError, 2, 3):
        autotune(tiny_file(tmp_path, config=replace(TINY, block_size=2)), seconds=0.0)


@pytest.mark.parametrize("block_size", [3, 5, 17])
def test_a_short_context_is_measured_as_far_as_it_goes_and_progress_from_nothing_to_all(
    tmp_path: Path, block_size: int
) -> None:
    file, seen = tiny_file(tmp_path, config=replace(TINY, block_size=block_size)), list[float]()
    result = autotune(file, seconds=0.0, on_progress=seen.append)
    assert result.comparisons[0].prompt_tokens == block_size - 1
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
