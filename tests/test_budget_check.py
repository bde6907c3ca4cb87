"""`edgegpt check`: a file against a budget, measured in fresh processes."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from math import inf
from pathlib import Path
from typing import Any

import pytest
from conftest import CommandError, Refused
from helpers.sample_figures import FIGURES, MACHINE

from edgegpt.budget import Budget, Check, Estimate, Verdict, check as check_module, check_file, memory, rows
from edgegpt.budget.sample_size import SECONDS_OPTION, SecondsOption, advice, check_spec, elsewhere
from edgegpt.cli.main import app, main
from edgegpt.errors import ArtifactError, DataError, MeasureError
from edgegpt.measure import STEADY_REQUESTS, Distribution, MeasureSpec, ProcessResult, this_machine
from edgegpt.profiling import profile_board
from edgegpt.report.commands import CHECK_OPTION
from edgegpt.runtime import ort_backend

Capture = pytest.CaptureFixture[str]
MADE = replace(FIGURES, first_token={8: Distribution((4.0,) * 100)}, token={16: Distribution((2.0,) * 100)})

EVERYTHING = """
parameters: 1e9
artifact_mb: 0.001
kv_cache_mb: 1000
peak_rss_mb: 1
load_ms: 1e9
ttft_ms: {prompt_tokens: 8, p50: 1e-6, p99: 1e9}
token_ms: {p50: 1e-6, p99: 1e9, max: 1e9}
jitter: 1e6
idle_cpu_percent: 1e6
rss_slope_kb_per_1000: 1e9
accuracy: {path: examples.jsonl, minimum: 1}
"""
BOARD = (
    "\nboard: {description: b, architecture: riscv64, memory_mb: {value: 60, basis: published, source: s}}"
)
SIZES = "parameters: 1e6\nartifact_mb: 5\nkv_cache_mb: 1\nthreads: 4000\n"
MeasureAs = Callable[..., list[MeasureSpec]]
RunCheck = Callable[[str], Check]


def budget(folder: Path, text: str) -> Budget:
    """Write `budget.yaml` and return it."""
    path = folder / "budget.yaml"
    path.write_text(f"name: tight\n{text}")
    return Budget.from_yaml(path)


@pytest.fixture(scope="module")
def checked(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Check:
    """Everything that a budget can limit, measured once."""
    folder = tmp_path_factory.mktemp("check")
    (folder / "examples.jsonl").write_text('{"prompt": "turn", "completion": "left"}\n')
    return check_file(file, budget(folder, EVERYTHING), seconds=0.1)  # a slow machine has a whole one


@pytest.fixture
def check(file: Path, tmp_path: Path) -> RunCheck:
    """`check("load_ms: 1")` checks the tiny file against these limits."""
    return lambda limits: check_file(file, budget(tmp_path, limits))


@pytest.fixture
def measure_as(monkeypatch: pytest.MonkeyPatch) -> MeasureAs:
    """`measure_as(a, b)` lets processes measure these in turn, the last from then on; `measure_as()` none."""

    def use(*results: ProcessResult) -> list[MeasureSpec]:
        ran: list[MeasureSpec] = []

        def measure(_: Path, spec: MeasureSpec) -> ProcessResult:
            assert results, "nothing is to be measured"
            ran.append(spec)
            return results[min(len(ran), len(results)) - 1]

        monkeypatch.setattr(check_module, "measure_process", measure)
        return ran

    return use


# What is judged


def test_every_limit_is_measured_and_judged_and_json_says_the_same(checked: Check) -> None:
    verdicts = {row.name: row.verdict for row in checked.rows}
    assert list(verdicts) == list(checked.budget.limits())
    broken = {"artifact_mb", "peak_rss_mb", "ttft_ms.p50", "token_ms.p50", "accuracy"}
    if sys.platform != "linux":  # elsewhere the system may not report its memory
        broken.discard("peak_rss_mb")
    assert {name for name, verdict in verdicts.items() if verdict is Verdict.BROKEN} == broken
    for name in ("parameters", "kv_cache_mb", "load_ms", "token_ms.max", "jitter", "idle_cpu_percent"):
        assert verdicts[name] is Verdict.KEPT
    document = json.loads(json.dumps(checked.to_json(), allow_nan=False))
    assert {row["name"]: Verdict(row["verdict"]) for row in document["limits"]} == verdicts
    assert document["verdicts"] == {v.value: list(verdicts.values()).count(v) for v in Verdict}
    assert (document["broken"], document["processes"]) == (True, 6)
    assert "kept" not in document  # what is within noise is neither
    assert document["machine"]["versions"]["onnxruntime"]


def test_sizes_are_counted_without_measuring_or_loading(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measure_as: MeasureAs
) -> None:
    """The budget's threads, this machine's memory and the board's do not matter then, nor the load."""
    measure_as()
    monkeypatch.setattr(ort_backend, "open_session", lambda *_, **__: pytest.fail("loaded"))
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: 1)
    before = replace(this_machine(), load=123.0)
    sizes = check_file(file, budget(tmp_path, SIZES), before=before)
    assert sizes.machine is before  # the caller's own work before is no load
    assert (sizes.processes, sizes.noise, sizes.broken) == (0, (), ())
    figures = {row.name: row.estimate.value for row in sizes.rows if row.estimate is not None}
    assert figures["kv_cache_mb"] == 2 * 2 * 48 * 32 * 4 / 1e6


def test_what_is_counted_is_checked_as_what_is_loaded(file: Path, tmp_path: Path, refused: Refused) -> None:
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(file.read_bytes().replace(b"/blocks.0", b"/blocks.9", 1))
    with refused(ArtifactError, damaged):
        check_file(damaged, budget(tmp_path, SIZES))


@pytest.mark.parametrize(
    ("limits", "spec"),
    [
        ("load_ms: 1", {"prompts": (), "fills": (), "longest": False, "seconds": 0.0}),
        ("peak_rss_mb: 1", {"prompts": (), "fills": (), "longest": True, "seconds": 0.0}),
        ("idle_cpu_percent: 1", {"fills": (), "longest": False, "idle_seconds": 0.5}),
        ("rss_slope_kb_per_1000: 1", {"fills": (), "requests": STEADY_REQUESTS}),
        ("token_ms: {p50: 1}", {"prompts": (), "fills": None, "seconds": 2.0, "token_samples": 0}),
        ("jitter: 2", {"prompts": (), "fills": None, "token_samples": 62, "first_samples": 0}),
        ("ttft_ms: {prompt_tokens: 9, p50: 1}", {"prompts": (9,), "fills": (), "first_samples": 0}),
        ("ttft_ms: {prompt_tokens: 9, p99: 1}", {"prompts": (9,), "first_samples": 62, "repeats": 4}),
    ],
)
def test_what_the_budget_limits_is_measured_and_nothing_else(
    tmp_path: Path, limits: str, spec: dict[str, Any]
) -> None:
    made = check_spec(budget(tmp_path, limits), 1, 2.0, 6)
    assert made is not None
    assert not made.apart
    assert {name: getattr(made, name) for name in spec} == spec


def test_every_process_asks_other_requests(check: RunCheck, measure_as: MeasureAs) -> None:
    """The same ones would make one step of an allocator a leak in all of them."""
    ran = measure_as(replace(MADE, rss_slope_kb_per_1000=0.0, watched_requests=50))
    few = check("rss_slope_kb_per_1000: 1e9")
    assert len({spec.seed for spec in ran}) == len(ran) >= 6
    (caveat,) = few.advice
    assert "50 requests" in caveat


FEW = replace(
    MADE,
    first_token={8: Distribution((1.0,) * 23)},
    token={16: Distribution((1.0,) * 60), 30: Distribution((1.0,) * 50)},
)


@pytest.mark.parametrize(
    ("name", "seconds", "option", "values"),
    [
        # Up to ten times as long is measured, at the rate at which samples came before.
        ("ttft_ms.p99", 10.0, SECONDS_OPTION, ("138", "368", "--seconds 3.21")),
        ("ttft_ms.p99", 1000.0, SecondsOption("--edgegpt-seconds"), ("--edgegpt-seconds 320",)),
        ("ttft_ms.p99", 1000.0, CHECK_OPTION, ("--seconds 1280",)),  # a report gives its check a quarter
        ("ttft_ms.p99", 20_000.0, SECONDS_OPTION, ("--seconds 3600",)),  # the largest value: not enough
        ("jitter", 10.0, SECONDS_OPTION, ("300",)),  # the samples of its poorest fill
    ],
)
def test_a_missing_bound_is_named_with_the_seconds_that_would_give_it(
    name: str, seconds: float, option: SecondsOption, values: tuple[str, ...]
) -> None:
    unbounded = rows({name: 1.0}, {name: Estimate(1.0, 0.5, inf)})
    (line,) = advice(unbounded, [replace(FEW, seconds=seconds)] * 6, option)
    assert [value for value in (name, *values) if value not in line] == []


@pytest.mark.parametrize(
    ("limits", "error", "values"),
    [
        ("ttft_ms: {prompt_tokens: 48, p50: 1}", MeasureError, "48 47"),
        ("accuracy: {path: long.jsonl, minimum: 1}", DataError, "long.jsonl line 3"),
        ("accuracy: {path: pipe.jsonl, minimum: 1}", DataError, "pipe.jsonl"),
        ("accuracy: {path: none.jsonl, minimum: 1}", DataError, "none.jsonl"),
    ],
)
def test_what_does_not_fit_the_file_is_refused_before_measuring(
    check: RunCheck,
    tmp_path: Path,
    measure_as: MeasureAs,
    refused: Refused,
    limits: str,
    error: type[Exception],
    values: str,
) -> None:
    measure_as()
    good, long = ({"prompt": "go", "completion": text} for text in ("left", "x y " * 30))
    (tmp_path / "long.jsonl").write_text(f"{json.dumps(good)}\n\n{json.dumps(long)}\n")
    os.mkfifo(tmp_path / "pipe.jsonl")
    with refused(error, *values.split()):
        check(f"load_ms: 1\n{limits}")


@pytest.mark.parametrize(
    ("architecture", "name", "is_another"),
    [
        ("x86_64", None, True),
        ("aarch64", "Raspberry Pi 4 Model B", True),
        ("aarch64", "Raspberry Pi 5 Model B Rev 1.0", False),
        ("aarch64", None, False),  # such as in a container
        ("arm64", None, False),
    ],
)
def test_on_another_machine_than_the_budgets_board_a_check_warns_that_it_proves_nothing(
    architecture: str, name: str | None, is_another: bool
) -> None:
    board = Budget.from_yaml(Path(__file__).parents[1] / "configs/budgets/raspberry-pi-5.yaml").board
    here = replace(MACHINE, architecture=architecture, board=name)
    timed = rows({"load_ms": 1.0}, {"load_ms": Estimate.exact(0.5)})
    warnings = list(elsewhere(board, here, timed))
    assert len(warnings) == is_another
    assert all("Raspberry Pi 5" in line and (name or architecture) in line for line in warnings)
    counted = rows({"parameters": 1.0}, {"parameters": Estimate.exact(0.5)})
    assert not list(elsewhere(board, here, counted))
    assert not list(elsewhere(None, here, timed))


@pytest.mark.parametrize(
    ("waited", "ran", "chosen"),
    [
        ([0.0] * 12, 6, (0.0, 5.0)),
        ([50.0, 0.0, 60.0] + [0.0] * 9, 8, (1.0, 7.0)),
        ([50.0] * 6 + [40.0] * 6, 12, (6.0, 11.0)),
    ],
)
def test_a_process_that_lost_its_core_is_measured_again_and_the_least_disturbed_count(
    check: RunCheck, measure_as: MeasureAs, waited: list[float], ran: int, chosen: tuple[float, float]
) -> None:
    """Twelve at most; which six count depends on how long they waited and not on what they measured."""
    made = measure_as(*(replace(MADE, waited_percent=w, load_ms=float(i)) for i, w in enumerate(waited)))
    (row,) = check("load_ms: 1").rows
    assert row.estimate is not None
    assert (len(made), (row.estimate.low, row.estimate.high)) == (ran, chosen)


@pytest.mark.parametrize(
    ("limits", "waited", "load_waited", "doubted"),
    [
        ("load_ms: 1e9\ntoken_ms: {p50: 1e9}", 50.0, 100.0, False),  # kept on a busy machine is kept
        ("load_ms: 1e9\ntoken_ms: {p50: 1e-3}", 50.0, 0.0, True),
        ("load_ms: 1e9\ntoken_ms: {p50: 1e-3}", 0.0, 100.0, False),  # the load is kept
        ("load_ms: 1e-3\ntoken_ms: {p50: 1e9}", 0.0, 100.0, True),
        ("peak_rss_mb: 1e-3\ntoken_ms: {p50: 1e9}", 50.0, 0.0, False),  # memory does not wait
        ("parameters: 1000\ntoken_ms: {p50: 2.5, p99: 1e9}", 50.0, 0.0, False),
        ("token_ms: {p99: 1.5}", 3.0, 0.0, True),  # within noise because of that wait
    ],
)
def test_a_busy_machine_is_recorded_only_where_a_limit_on_a_time_is_not_kept(
    check: RunCheck, measure_as: MeasureAs, limits: str, waited: float, load_waited: float, doubted: bool
) -> None:
    token = {16: Distribution((1.0,) * 90 + (2.0,) * 10)}
    measure_as(replace(MADE, token=token, waited_percent=waited, load_ms=200.0, load_waited_ms=load_waited))
    checked = check(limits)
    assert bool(checked.noise) == doubted
    assert checked.to_json()["noise"] == list(checked.noise)


def test_the_measured_peak_is_held_to_the_boards_memory_where_the_budget_limits_none(
    check: RunCheck, measure_as: MeasureAs
) -> None:
    """As in a plan."""
    measure_as(MADE)

    def limits(text: str) -> list[tuple[object, ...]]:
        document = check(text + BOARD).to_json()
        assert ("riscv64" in str(document["advice"])) == (document["processes"] > 0)  # not that board
        return [(row["name"], row["limit"], row["limit_of"], row["verdict"]) for row in document["limits"]]

    peak = ("peak_rss_mb", 60, "board", "broken")
    assert limits("load_ms: 1e9") == [("load_ms", 1e9, "budget", "kept"), peak]
    assert limits("peak_rss_mb: 50") == [("peak_rss_mb", 50, "budget", "broken")]
    assert limits("parameters: 1e6") == [("parameters", 1e6, "budget", "kept")]


# The command


def test_the_commands_default_to_what_the_library_does() -> None:
    def default(command: Callable[..., object], name: str) -> object:
        return signature(command).parameters[name].default

    commands = {command.name: command.callback for command in app.registered_commands}
    for command, library, names in (
        (commands["check"], check_file, ("processes", "seconds", "threads")),
        (commands["profile"], profile_board, ("seconds", "threads", "name")),
    ):
        assert command is not None
        for name in names:
            assert default(command, name) == default(library, name), name


@pytest.mark.parametrize(
    ("limits", "code", "printed", "named"),
    [
        ("load_ms: 1e9", 0, "load_ms 1,000,000,000 +100% kept onnxruntime", ""),
        ("parameters: 1000\nartifact_mb: 5", 1, "broken", "'tight' parameters 1,000"),
        ("token_ms: {p50: 1e-3}", 1, "77.0 30", "token_ms.p50 not quiet"),  # the load of a busy machine
        ("load_ms: 1e9" + BOARD, 1, "60 (board) riscv64", "peak_rss_mb 63 60"),
    ],
)
def test_the_exit_code_says_whether_a_budget_is_kept_and_the_error_names_limit_and_figure(
    file: Path,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    measure_as: MeasureAs,
    limits: str,
    code: int,
    printed: str,
    named: str,
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (77.0, 0.0, 0.0))
    measure_as(replace(MADE, waited_percent=30.0))
    budget(tmp_path, limits)
    command = ["check", str(file), "--budget", str(tmp_path / "budget.yaml")]
    assert main(command) == code
    output = capsys.readouterr()
    assert [word for word in printed.split() if word not in output.out] == []
    assert [word for word in named.split() if word not in output.err] == []
    assert (output.err.startswith(f"edgegpt: {file} "), output.err.count("\n")) == (bool(code), code)
    assert main([*command, "--json"]) == code
    assert json.loads(capsys.readouterr().out)["broken"] == bool(code)


def test_what_cannot_be_checked_is_refused_in_one_sentence(
    file: Path, tmp_path: Path, command_error: CommandError
) -> None:
    budget(tmp_path, "load_ms: 1e9\nttft_ms: {prompt_tokens: 99, p50: 1}\n")
    good, none, pipe = tmp_path / "budget.yaml", tmp_path / "none", tmp_path / "pipe"
    os.mkfifo(pipe)
    for model in (none, good, pipe, tmp_path):
        assert str(model) in command_error("check", model, "--budget", good)
    for wrong in (none, pipe, tmp_path):
        assert str(wrong) in command_error("check", file, "--budget", wrong)
    for option, value in (("--threads", 9999), ("--processes", 2), ("--seconds", "nan")):
        assert str(value) in command_error("check", file, "--budget", good, option, value)
    assert "99" in command_error("check", file, "--budget", good)
