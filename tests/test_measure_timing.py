"""Rounds of an engine in this process, and the growth of its memory. No times."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgegpt.measure.leak import steady_slope
from edgegpt.measure.spec import MIN_ROUNDS, MeasureSpec
from edgegpt.measure.timing import Rounds, first_token_ms, random_ids, token_ms
from edgegpt.runtime.engine import Engine

LINUX = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux")


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """`watch("prefill", note)` collects `note(cache, input)` of each call of that method of the engine."""

    def collect(method: str, note: Callable[[Any, Any], int]) -> list[int]:
        noted: list[int] = []
        original = getattr(Engine, method)

        def watched(self: Engine, cache: Any, read: Any, **options: Any) -> Any:
            noted.append(note(cache, read))
            return original(self, cache, read, **options)

        monkeypatch.setattr(Engine, method, watched)
        return noted

    return collect


# An engine in this process


def test_the_first_step_of_a_burst_finds_the_cache_as_full_as_asked(
    engine: Engine, watch: Callable[..., list[int]]
) -> None:
    cache, ids = engine.new_cache(), random_ids(engine, engine.capacity - 5)
    assert first_token_ms(engine, cache, ids) > 0
    fills = watch("decode_one_token", lambda cache, _: cache.length)
    assert len(token_ms(engine, cache, ids, 4)) == 4
    assert fills == [engine.capacity - 5 + i for i in range(4)]


def test_bursts_follow_the_reading_of_the_longest_of_their_prompts(
    engine: Engine, watch: Callable[..., list[int]]
) -> None:
    read = watch("prefill", lambda _, ids: len(ids))
    rounds = Rounds(engine, MeasureSpec(prompts=(8,), fills=(30, 12), burst=4, repeats=2, seconds=0.0))
    rounds.run(lambda _: None)
    assert read == [47, *[8, 8, 30, 1, 1] * (1 + MIN_ROUNDS)]
    assert {n: len(samples) for n, samples in rounds.token.items()} == {30: 12, 12: 12}


def test_rounds_go_on_until_there_are_enough_samples_but_not_forever(engine: Engine) -> None:
    spec = MeasureSpec(prompts=(8,), fills=(12,), burst=4, seconds=0.05, first_samples=9, token_samples=40)
    rounds = Rounds(engine, replace(spec, seconds=1.0))
    monotone: list[float] = []
    rounds.run(monotone.append)
    assert len(rounds.first[8]) >= 9
    assert len(rounds.token[12]) >= 40
    assert monotone == sorted(monotone)
    endless = Rounds(engine, replace(spec, seconds=0.005, first_samples=10**9))
    endless.run(lambda _: None)
    assert endless.seconds >= 0.05  # ten times as long
    assert len(endless.first[8]) < 10**6


def test_what_the_spec_leaves_out_is_not_done(engine: Engine, watch: Callable[..., list[int]]) -> None:
    read = watch("prefill", lambda _, ids: len(ids))
    rounds = Rounds(engine, MeasureSpec(prompts=(), fills=(), longest=False))
    rounds.run(lambda _: None)
    assert (rounds.first, rounds.token, rounds.medians, read) == ({}, {}, [], [])


# Growth

LEAK = """
import sys, edgegpt
from edgegpt.measure.leak import growth
engine, kept, leak = edgegpt.load(sys.argv[1]).engine, [], int(sys.argv[2])
generate = engine.generate
def leaking(*arguments):
    kept.append(bytearray(leak) if leak else None)
    return generate(*arguments)
engine.generate = leaking
found = growth(engine, 500, seed=leak)
print(len(kept), found.requests, found.kb_per_1000)
"""


@LINUX
@pytest.mark.parametrize(("leak", "low", "high"), [(0, -40, 120), (200, 150, 400)])
def test_a_leak_is_found_and_none_where_there_is_none(file: Path, leak: int, low: int, high: int) -> None:
    """In a process of its own, whose heap has no holes that would be filled first."""
    command = [sys.executable, "-c", LEAK, str(file), str(leak)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    asked, watched, kb_per_1000 = run.stdout.split()
    assert (asked, watched) == ("1000", "500")
    assert low < float(kb_per_1000) < high


def test_one_jump_is_no_leak_and_one_return_of_memory_hides_none() -> None:
    assert [at for at in range(1, 51) if steady_slope(np.repeat([0.0, 64e3], [at, 51 - at])) != 0] == []
    for at in range(1, 50):
        grows = np.arange(51, dtype=np.float64) * 3e3
        grows[at:] -= 200e3 / 2
        assert steady_slope(grows) > 2e3, at
    assert steady_slope(np.repeat(np.array([0.0, 64e3, 128e3]), 17)) > 1e3
    assert steady_slope(np.arange(51, dtype=np.float64) * 4096) == 4096
