"""Percentiles by hand, counted facts of the machine, and what a measuring process reports. No times."""

import json
import math
import os
import subprocess
import sys
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from conftest import TINY
from hypothesis import given
from hypothesis import strategies as st
from test_artifact import NOT_FOR_A_ROBOT
from tiny_files import graph, metadata, tiny_file, write_file

import edgegpt
from edgegpt import contract
from edgegpt.config import ModelConfig
from edgegpt.cores import control_groups
from edgegpt.engine import Engine
from edgegpt.errors import ArtifactError, MeasureError
from edgegpt.kv_cache import KVCache
from edgegpt.measure import free_memory, process
from edgegpt.measure.bandwidth import beyond_cache_bytes, read_bandwidth
from edgegpt.measure.distribution import Distribution
from edgegpt.measure.file import read_file
from edgegpt.measure.free_memory import group_free_bytes
from edgegpt.measure.leak import steady_slope
from edgegpt.measure.machine import available_memory_bytes, cgroup_quota, machine
from edgegpt.measure.memory import memory, peak_rss_bytes
from edgegpt.measure.noise import load_noise, noise
from edgegpt.measure.plan import (
    MIN_ROUNDS,
    Plan,
    ProcessFigures,
    figures_from_json,
    figures_to_json,
    plan_from_json,
)
from edgegpt.measure.process import measure_process
from edgegpt.measure.rounds import Rounds
from edgegpt.measure.timing import first_token_ms, random_ids, token_ms
from edgegpt.measure.traffic import weight_bytes_per_token
from edgegpt.measure.waiting import Moment, _ticks, waited_seconds
from edgegpt.precision import recipe
from edgegpt.profiling.products import largest_working_set_mb

LINUX = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux tells")
HUNDRED = Distribution(tuple(float(i) for i in range(100, 0, -1)))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_file(tmp_path_factory.mktemp("measure"))


@pytest.fixture(scope="module")
def engine(file: Path) -> Engine:
    return edgegpt.load(file).engine


@pytest.fixture(scope="module")
def figures(file: Path) -> ProcessFigures:
    return measure_process(file, Plan(seconds=0.0, idle_seconds=0.01, requests=8, burst=4))


# Percentiles


def test_percentiles_are_samples_that_were_measured() -> None:
    assert (HUNDRED.p50, HUNDRED.p90, HUNDRED.p99, HUNDRED.max) == (50.0, 90.0, 99.0, 100.0)
    assert HUNDRED.mean == 50.5
    assert HUNDRED.jitter == 99 / 50
    assert Distribution((3.0,)).p99 == 3.0


def test_the_median_of_ten_lies_between_the_second_and_the_ninth() -> None:
    """As in every table of the sign test: 97.9 % at n = 10."""
    interval = Distribution(tuple(float(i) for i in range(1, 11))).interval(0.5)
    assert (interval.low, interval.high) == (2.0, 9.0)


@pytest.mark.parametrize(("n", "bounded"), [(5, False), (6, True)])
def test_a_median_has_bounds_from_six_samples_on(n: int, bounded: bool) -> None:
    """1/2^5 is more than 2.5 %, 1/2^6 is less."""
    interval = Distribution(tuple(float(i) for i in range(1, n + 1))).interval(0.5)
    assert (interval.low, interval.high) == ((1.0, float(n)) if bounded else (0.0, math.inf))


@pytest.mark.parametrize(("n", "bounded"), [(367, False), (368, True)])
def test_the_99th_percentile_has_an_upper_bound_from_368_samples_on(n: int, bounded: bool) -> None:
    """0.99^367 is more than 2.5 %, 0.99^368 is less."""
    assert math.isfinite(Distribution(tuple(map(float, range(n)))).interval(0.99).high) == bounded


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=60), st.sampled_from([0.5, 0.9, 0.99]))
def test_an_interval_holds_its_percentile(samples: list[float], q: float) -> None:
    part = Distribution(tuple(samples))
    assert part.interval(q).low <= part.percentile(q) <= part.interval(q).high


def test_intervals_hold_the_true_median_in_at_least_95_of_100_cases() -> None:
    rng, held = np.random.default_rng(0), 0
    for _ in range(1000):
        interval = Distribution(tuple(rng.exponential(size=50))).interval(0.5)
        held += interval.low <= math.log(2) <= interval.high
    assert 940 <= held <= 990


def test_a_summary_is_plain_json_and_a_missing_bound_is_null() -> None:
    summary = json.loads(json.dumps(HUNDRED.summary(), allow_nan=False))
    assert summary["samples"] == 100
    assert summary["p99_interval"] == [97.0, None]


def test_joined_parts_keep_every_sample() -> None:
    assert Distribution.joined([Distribution((1.0, 3.0)), Distribution((2.0,))]).samples == (1.0, 3.0, 2.0)


def test_no_samples_are_no_distribution() -> None:
    with pytest.raises(MeasureError, match="at least one sample"):
        Distribution(())
    with pytest.raises(MeasureError, match=r"between 0 and 1, got 1\.0"):
        HUNDRED.interval(1.0)


# The machine


def group(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_the_tightest_quota_of_the_groups_above_counts(tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    group(root, "cpu.max", "max 100000\n")
    group(root / "robot", "cpu.max", "150000 100000\n")
    group(root / "robot" / "node", "cpu.max", "400000 100000\n")
    proc = tmp_path / "self"
    proc.write_text("0::/robot/node\n")
    assert cgroup_quota(proc, root) == 1.5
    proc.write_text("0::/\n")
    assert cgroup_quota(proc, root) is None


def test_a_quota_of_the_first_cgroups_counts_too(tmp_path: Path) -> None:
    group(tmp_path / "cpu" / "job", "cpu.cfs_quota_us", "50000\n")
    group(tmp_path / "cpu" / "job", "cpu.cfs_period_us", "100000\n")
    group(tmp_path / "cpu", "cpu.cfs_quota_us", "-1\n")
    proc = tmp_path / "self"
    proc.write_text("4:memory:/x\n1:cpu,cpuacct:/job\n0::/\n")
    assert cgroup_quota(proc, tmp_path) == 0.5


def test_the_tightest_memory_limit_of_the_groups_above_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is cached of files is dropped first, as in the machine's own count."""
    group(tmp_path / "robot", "memory.max", "500000000\n")
    group(tmp_path / "robot", "memory.current", "400000000\n")
    group(tmp_path / "robot", "memory.stat", "anon 7\nactive_file 20000000\ninactive_file 30000000\n")
    group(tmp_path / "robot" / "node", "memory.max", "max\n")
    group(tmp_path / "robot" / "node", "memory.current", "100\n")
    proc = tmp_path / "self"
    proc.write_text("0::/robot/node\n")
    groups = list(control_groups("memory", proc, tmp_path))
    assert [group_free_bytes(folder) for folder in groups] == [None, 150_000_000, None]
    monkeypatch.setattr(free_memory, "control_groups", lambda _: groups)
    assert (available_memory_bytes() or 0) <= 150_000_000
    assert beyond_cache_bytes() <= 150_000_000 // 4
    assert largest_working_set_mb() <= 15


def test_a_memory_limit_of_the_first_cgroups_counts_too(tmp_path: Path) -> None:
    group(tmp_path / "memory" / "job", "memory.limit_in_bytes", "300000000\n")
    group(tmp_path / "memory" / "job", "memory.usage_in_bytes", "350000000\n")
    proc = tmp_path / "self"
    proc.write_text("4:memory:/job\n1:cpu,cpuacct:/\n")
    groups = list(control_groups("memory", proc, tmp_path))
    assert [group_free_bytes(folder) for folder in groups] == [0, None]


def test_without_cgroups_there_is_no_quota(tmp_path: Path) -> None:
    assert cgroup_quota(tmp_path / "none", tmp_path) is None


@pytest.mark.parametrize(("quota", "cores"), [(None, 4), (1.5, 2), (0.3, 1), (9.0, 4)])
def test_available_cores_respect_affinity_and_quota(quota: float | None, cores: int) -> None:
    assert replace(machine(), affinity=4, quota=quota).available_cores == cores


def test_the_machine_names_what_a_figure_depends_on() -> None:
    facts = machine()
    assert facts.cpu
    assert facts.versions.keys() == {"python", "edgegpt", "onnxruntime", "numpy"}
    if hasattr(os, "sched_getaffinity"):
        assert facts.affinity == len(os.sched_getaffinity(0))


def test_a_runtime_in_a_wheel_of_another_name_has_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_its_own(name: str) -> str:
        raise PackageNotFoundError(name)  # as with onnxruntime-gpu

    monkeypatch.setattr("edgegpt.measure.machine.version", only_its_own)
    versions = machine().versions
    assert versions["onnxruntime"] == ort.__version__
    assert versions["edgegpt"] == "unknown"


def test_bandwidth_says_what_it_read() -> None:
    for threads in (1, 2):
        measured = read_bandwidth(80_000, threads, seconds=0.0)
        assert measured.buffer_bytes == 80_000
        assert measured.bytes_per_second > 0
    assert beyond_cache_bytes() > 1_000_000


# Memory


@LINUX
def test_resident_memory_is_private_and_mapped_together() -> None:
    before = memory()
    array = np.ones(40_000_000, np.uint8)
    after = memory()
    assert before is not None
    assert after is not None
    assert after.rss_bytes == after.private_bytes + after.mapped_bytes
    assert 39e6 < after.private_bytes - before.private_bytes < 60e6
    assert (peak_rss_bytes() or 0) >= array.nbytes


# An engine in this process


def test_the_first_further_token_finds_the_cache_as_full_as_asked(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fills, decode = [], Engine.decode_one_token

    def watched(self: Engine, cache: KVCache, token_id: int) -> Any:
        fills.append(cache.length)
        return decode(self, cache, token_id)

    cache, ids = engine.new_cache(), random_ids(engine, engine.capacity - 5)
    assert first_token_ms(engine, cache, ids) > 0
    monkeypatch.setattr(Engine, "decode_one_token", watched)
    assert len(token_ms(engine, cache, ids, 4)) == 4
    assert fills == [engine.capacity - 5 + i for i in range(4)]


def test_bursts_follow_the_reading_of_the_longest_of_their_prompts(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, prefill = [], Engine.prefill

    def watched(self: Engine, cache: KVCache, token_ids: Any, **options: Any) -> Any:
        read.append(len(token_ids))
        return prefill(self, cache, token_ids, **options)

    monkeypatch.setattr(Engine, "prefill", watched)
    rounds = Rounds(engine, Plan(prompts=(8,), fills=(30, 12), burst=4, repeats=2, seconds=0.0))
    rounds.run(lambda _: None)
    assert read == [47, *[8, 8, 30, 1, 1] * (1 + MIN_ROUNDS)]
    assert {n: len(samples) for n, samples in rounds.token.items()} == {30: 12, 12: 12}


def test_rounds_go_on_until_there_are_samples_enough_but_not_for_ever(engine: Engine) -> None:
    plan = Plan(prompts=(8,), fills=(12,), burst=4, seconds=0.05, first_samples=9, token_samples=40)
    rounds = Rounds(engine, replace(plan, seconds=1.0))
    monotone: list[float] = []
    rounds.run(monotone.append)
    assert len(rounds.first[8]) >= 9
    assert len(rounds.token[12]) >= 40
    assert monotone == sorted(monotone)
    endless = Rounds(engine, replace(plan, seconds=0.005, first_samples=10**9))
    endless.run(lambda _: None)
    assert endless.seconds >= 0.05  # ten times as long
    assert len(endless.first[8]) < 10**6


def test_what_the_plan_leaves_out_is_not_done(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("nothing is to be measured")

    monkeypatch.setattr(Engine, "prefill", never)
    rounds = Rounds(engine, Plan(prompts=(), fills=(), longest=False))
    rounds.run(lambda _: None)
    assert (rounds.first, rounds.token, rounds.medians) == ({}, {}, [])


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
@pytest.mark.parametrize(("leak", "low", "high"), [(0, -40, 60), (200, 150, 400)])
def test_a_leak_is_found_and_none_where_there_is_none(file: Path, leak: int, low: int, high: int) -> None:
    """In a process of its own, whose heap has no holes that would be filled first."""
    command = [sys.executable, "-c", LEAK, str(file), str(leak)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    asked, watched, kb_per_1000 = run.stdout.split()
    assert (asked, watched) == ("1000", "500")
    assert low < float(kb_per_1000) < high


@pytest.mark.parametrize("at", range(1, 51))
def test_one_jump_of_an_allocator_is_no_leak(at: int) -> None:
    assert steady_slope(np.repeat([0.0, 64e3], [at, 51 - at])) == 0


def test_what_grows_and_grows_is_one() -> None:
    assert steady_slope(np.repeat([0.0, 64e3, 128e3], 17)) > 1e3
    assert steady_slope(np.arange(51) * 4096.0) == 4096


# What a token reads


def test_a_token_reads_all_weights_but_the_other_positions() -> None:
    config = ModelConfig(vocab_size=100, block_size=16, n_layer=2, n_head=2, n_embd=32, tie_embeddings=True)
    all_weights = 4 * (32_192 - 100 * 32)  # 32,192 with an untied head
    assert weight_bytes_per_token(config, recipe(config, "fp32")) == all_weights - 4 * 15 * 32


def test_an_untied_head_leaves_the_embedding_unread_but_for_a_row() -> None:
    config = ModelConfig(vocab_size=100, block_size=16, n_layer=2, n_head=2, n_embd=32, tie_embeddings=False)
    unread = 4 * (15 * 32 + 99 * 32)
    assert weight_bytes_per_token(config, recipe(config, "fp32")) == 4 * 32_192 - unread


def test_the_facts_of_a_file_are_its_metadata(file: Path) -> None:
    facts = read_file(file)
    assert (facts.target, facts.precision, facts.context) == ("engine", "fp32", 48)
    assert facts.bytes == file.stat().st_size
    assert 0 < facts.weight_bytes_per_token < 4 * facts.parameters


def test_a_recipe_in_the_file_counts(tmp_path: Path) -> None:
    entries = metadata()
    config = ModelConfig.parse(entries[contract.META_CONFIG], "tiny")
    eight = recipe(config, "int8")
    quantised = {**entries, contract.META_RECIPE: json.dumps({"bits": eight})}
    facts = read_file(write_file(tmp_path / "int8.onnx", graph(), quantised))
    assert facts.weight_bytes_per_token == weight_bytes_per_token(config, eight)
    assert facts.weight_bytes_per_token < weight_bytes_per_token(config, recipe(config, "fp32"))
    foreign = {**entries, contract.META_RECIPE: '{"bits": {"wte.weight": 8}}'}
    with pytest.raises(ArtifactError, match="does not name the matrices"):
        read_file(write_file(tmp_path / "foreign.onnx", graph(), foreign))


# A process


def test_a_process_measures_the_usual_prompts_and_fills(figures: ProcessFigures) -> None:
    assert list(figures.first_token) == [8, 32, 47]
    assert list(figures.token) == [16, 24, 43]
    assert {part.n for part in figures.first_token.values()} == {MIN_ROUNDS}
    assert {part.n for part in figures.token.values()} == {MIN_ROUNDS * 4}
    assert len(figures.round_ms) == MIN_ROUNDS


def test_its_load_time_holds_its_imports(figures: ProcessFigures) -> None:
    assert 0 < figures.import_ms < figures.load_ms
    assert figures.first_reply_ms > 0


def test_its_cache_is_counted(figures: ProcessFigures, engine: Engine) -> None:
    assert figures.cache_bytes == engine.new_cache().bytes


@LINUX
def test_its_memory_grows_from_imports_to_work_and_is_the_models_alone(figures: ProcessFigures) -> None:
    assert figures.imported is not None
    assert figures.loaded is not None
    assert figures.worked is not None
    assert figures.imported.rss_bytes < figures.loaded.rss_bytes <= figures.worked.rss_bytes + 5_000_000
    assert figures.peak_rss_bytes is not None
    assert figures.worked.rss_bytes <= figures.peak_rss_bytes < 200e6  # this process has torch
    assert figures.rss_slope_kb_per_1000 is not None


def test_nothing_of_the_tools_own_is_in_the_process_whose_memory_is_read(file: Path) -> None:
    code = (
        "import sys, numpy, onnxruntime; before = set(sys.modules)\n"
        "from edgegpt.measure import child; from edgegpt.measure.plan import Plan\n"
        "read = child.peak_rss_bytes; loaded = set()\n"
        "child.peak_rss_bytes = lambda: (loaded.update(sys.modules), read())[1]\n"
        "child.measure(sys.argv[1], Plan(seconds=0.0), lambda _: None); print(*loaded - before)"
    )
    run = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "edgegpt.measure.rounds" in loaded
    assert not loaded & NOT_FOR_A_ROBOT


def test_a_load_alone_is_measured_without_a_round(file: Path) -> None:
    plan = Plan(prompts=(), fills=(), longest=False, apart=False, seconds=0.0, idle_seconds=0.0)
    figures = measure_process(file, plan)
    assert (figures.first_token, figures.token, figures.tokenise, figures.draw) == ({}, {}, None, None)
    assert figures.load_ms > 0
    assert figures_from_json(json.loads(json.dumps(figures_to_json(figures)))) == figures
    if (waited := figures.load_waited_ms) is not None:
        assert figures.waited_percent == pytest.approx(100 * waited / figures.load_ms)


def test_figures_come_through_json_unchanged(figures: ProcessFigures) -> None:
    assert figures_from_json(json.loads(json.dumps(figures_to_json(figures)))) == figures


def test_a_plan_comes_through_json_unchanged() -> None:
    for plan in (Plan(), Plan(threads=2, capacity=40, prompts=(3, 9), fills=(5,), bandwidth=True)):
        assert plan_from_json(json.loads(json.dumps(asdict(plan)))) == plan


def test_a_process_measures_what_the_plan_names(file: Path) -> None:
    plan = Plan(capacity=40, prompts=(3, 39), fills=(30, 2), burst=5, seconds=0.0, idle_seconds=0.0)
    shares: list[float] = []
    figures = measure_process(file, plan, on_progress=shares.append)
    assert list(figures.first_token) == [3, 39]
    assert list(figures.token) == [30, 2]
    assert figures.idle_cpu_percent is None
    assert figures.bandwidth == ()
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 looks into the current folder")
def test_files_of_the_current_folder_are_not_imported(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy.py").write_text("raise RuntimeError")
    monkeypatch.chdir(tmp_path)
    assert measure_process(file, Plan(seconds=0.0, idle_seconds=0.0)).load_ms > 0


# What cannot be measured


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        ({"prompts": (48,)}, "a prompt must have from 1 to 47 tokens, got 48; the context holds 48"),
        ({"fills": (40,)}, "a cache that is to take 16 more must have from 1 to 31 tokens, got 40"),
    ],
)
def test_lengths_that_do_not_fit_are_refused(file: Path, plan: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MeasureError, match=sentence):
        measure_process(file, Plan(**plan))


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        ({"seconds": -1.0}, r"seconds must be a number of at least 0, got -1\.0"),
        ({"seconds": math.nan}, "seconds must be a number of at least 0, got nan"),
        ({"burst": 0}, "burst must be at least 1, got 0"),
        ({"repeats": 0}, "repeats must be at least 1, got 0"),
        ({"requests": -1}, "requests must be a number of at least 0, got -1"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(plan: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MeasureError, match=sentence):
        Plan(**plan)


def test_a_context_without_room_for_the_first_reply_is_called_too_short(tmp_path: Path) -> None:
    short = tiny_file(tmp_path, config=replace(TINY, block_size=2))
    with pytest.raises(MeasureError, match="a context of 2 tokens is too short to measure"):
        measure_process(short, Plan(seconds=0.0))


def test_threads_beyond_the_cores_are_refused(file: Path) -> None:
    cores = machine().available_cores
    with pytest.raises(MeasureError, match=f"at most {cores}, the cores .* got {cores + 1}"):
        measure_process(file, Plan(threads=cores + 1))
    with pytest.raises(MeasureError, match="at least 1, got 0"):
        measure_process(file, Plan(threads=0))


def test_what_is_wrong_with_a_file_is_said_as_if_it_were_loaded_here(tmp_path: Path, file: Path) -> None:
    with pytest.raises(ArtifactError, match="does not exist"):
        measure_process(tmp_path / "none.onnx")
    (tmp_path / "half.onnx").write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(ArtifactError, match="not a whole ONNX file"):
        measure_process(tmp_path / "half.onnx")


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("kill -9 $$", "was ended by SIGKILL; the system may have run out of memory"),
        ("cat > /dev/null; kill -11 $$", "was ended by SIGSEGV$"),
        ("echo first >&2; echo last line >&2; exit 3", "failed: last line$"),
        ("cat > /dev/null; echo not json; exit 3", "failed: exit code 3$"),
        ("cat > /dev/null; echo 3; echo null; echo '[]'; exit 3", "failed: exit code 3$"),
        (r"cat > /dev/null; printf '\377\n'; exit 3", "failed: exit code 3$"),
        (
            """cat > /dev/null; echo '{"error": {"kind": "MeasureError", "sentence": "said"}}'; echo '{}'""",
            "^said$",
        ),
    ],
)
def test_a_process_that_dies_is_one_sentence(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, sentence: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(MeasureError, match=sentence):
        measure_process(file)


def test_an_interrupted_measurement_leaves_no_process(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[str]] = []

    class Remembered(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(process.subprocess, "Popen", Remembered)
    # What Python 3.11 waits for a child after Ctrl-C; a child that ends may take longer.
    monkeypatch.setattr(Remembered, "_wait", slow_to_end(Remembered._wait))
    with pytest.raises(KeyboardInterrupt):
        measure_process(file, Plan(seconds=600.0), on_progress=interrupt)
    assert [child.returncode is not None for child in started] == [True]


def slow_to_end(wait: Any) -> Any:
    def patient(self: Any, timeout: float | None) -> Any:
        if timeout is not None:
            raise subprocess.TimeoutExpired("child", timeout)
        return wait(self, timeout=None)

    return patient


def test_what_another_library_prints_is_no_figure(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, in the middle and after; without an end of line too."""
    noise = """import atexit; print('{"figures": 1', end=''); atexit.register(print, '{}')"""
    (tmp_path / "sitecustomize.py").write_text(noise)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    plan = Plan(prompts=(), fills=(), apart=False, seconds=0.0, idle_seconds=0.0)
    assert measure_process(file, plan).load_ms > 0


# Noise


def test_a_quiet_machine_has_nothing_to_say(figures: ProcessFigures) -> None:
    quiet = replace(figures, waited_percent=0.5, round_ms=(1.0, 1.01, 1.02))
    assert noise([quiet], replace(machine(), load=1.0, cores=2), 1) == ()


def test_a_busy_machine_is_said_with_its_load(figures: ProcessFigures) -> None:
    busy = replace(figures, waited_percent=12.0, round_ms=(1.0, 1.0, 1.5, 1.6))
    load, waited, spread = noise([busy], replace(machine(), load=1.4, cores=2), 1)
    assert "load average was 1.4" in load
    assert "2 cores" in load
    assert "12 % of the time" in waited
    assert "between 1.000 and 1.600 ms" in spread


def test_a_system_that_does_not_tell_is_said_but_its_load_is_not_guessed(figures: ProcessFigures) -> None:
    unknown = replace(figures, waited_percent=None, round_ms=(1.0,))
    (sentence,) = noise([unknown], replace(machine(), load=None), 1)
    assert "does not tell whether other work had" in sentence


def test_loads_that_waited_are_said(figures: ProcessFigures) -> None:
    assert load_noise([replace(figures, load_ms=200.0, load_waited_ms=2.0)]) == ()
    assert load_noise([replace(figures, load_waited_ms=None)]) == ()
    (sentence,) = load_noise([replace(figures, load_ms=200.0, load_waited_ms=60.0)])
    assert "while files were loaded" in sentence
    assert "30 % of the time" in sentence


# Waiting


def test_waiting_is_the_kernels_count_and_what_the_host_took() -> None:
    start = Moment(seconds=10.0, waited=1.0, wanted=1000, stolen=50)
    assert Moment(12.0, 1.5, 1200, 50).percent_since(start) == 25
    assert Moment(12.0, 1.0, 1200, 71).percent_since(start) == 10
    assert Moment(12.0, 1.0, 1002, 51).percent_since(start) == 0  # one tick may be of before
    assert Moment(12.0, None, 1200, 50).percent_since(start) is None


def test_ticks_are_read_as_the_kernel_writes_them(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  100 5 20 4000 30 1 2 7 50 0\ncpu0 1 2 3\n")
    assert _ticks(tmp_path / "stat") == (135, 7)
    assert _ticks(tmp_path / "none") == (0, 0)
    (tmp_path / "stat").write_text("cpu  100 5 20 4000\n")
    assert _ticks(tmp_path / "stat") == (0, 0)


def test_without_sched_stats_lost_cores_are_counted_and_without_both_nothing_is_made_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "schedstat").write_text("5000000000 1500000000 77\n")
    assert waited_seconds(tmp_path / "schedstat") == 1.5
    if os.name == "posix":
        assert (waited_seconds(tmp_path / "none") or 0.0) >= 0
    monkeypatch.setitem(sys.modules, "resource", None)
    assert waited_seconds(tmp_path / "none") is None
