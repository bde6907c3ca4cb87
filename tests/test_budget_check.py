"""`edgegpt check`: a file beside a budget, measured in fresh processes."""

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
from helpers.sample_figures import MACHINE

from edgegpt.budget import check as check_module, memory
from edgegpt.budget.budget import Budget
from edgegpt.budget.check import Check, check_file, check_json
from edgegpt.budget.format import remarks
from edgegpt.budget.sample_size import SECONDS_OPTION, SecondsOption, advice, check_plan, elsewhere
from edgegpt.budget.verdict import Estimate, Verdict, rows
from edgegpt.cli.main import app, main
from edgegpt.errors import ArtifactError, DataError, MeasureError
from edgegpt.measure.distribution import Distribution
from edgegpt.measure.machine import this_machine
from edgegpt.measure.process import measure_process
from edgegpt.measure.spec import STEADY_REQUESTS, MeasureSpec, ProcessResult
from edgegpt.profiling import profile_board
from edgegpt.report.commands import CHECK_OPTION
from edgegpt.runtime import ort_backend
from edgegpt_export import export_checkpoint

Capture = pytest.CaptureFixture[str]
SECONDS = ["--seconds", "0.01"]

EVERYTHING = """
name: everything
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


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    out = tmp_path_factory.mktemp("check") / "tiny.onnx"
    export_checkpoint(tiny_checkpoint, out)
    return out


@pytest.fixture(scope="module")
def figures(file: Path) -> ProcessResult:
    return measure_process(file, MeasureSpec(prompts=(8,), seconds=0.0, idle_seconds=0.0))


@pytest.fixture(scope="module")
def checked(file: Path) -> Check:
    """Everything that a budget can limit, measured once."""
    (file.parent / "examples.jsonl").write_text('{"prompt": "turn", "completion": "left"}\n')
    return check_file(file, budget(file.parent, EVERYTHING), seconds=0.1)  # a slow machine has a whole one


def budget(folder: Path, text: str) -> Budget:
    return Budget.from_yaml(budget_file(folder, text))


def budget_file(folder: Path, text: str) -> Path:
    path = folder / "budget.yaml"
    path.write_text(text)
    return path


def refused(capsys: Capture, *arguments: str) -> str:
    capsys.readouterr()
    assert main(["check", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    return output.err


# What is judged


def test_every_limit_is_measured_and_judged(checked: Check) -> None:
    verdicts = {row.name: row.verdict for row in checked.rows}
    assert list(verdicts) == list(checked.budget.limits())
    broken = {"artifact_mb", "peak_rss_mb", "ttft_ms.p50", "token_ms.p50", "accuracy"}
    if sys.platform != "linux":  # elsewhere the system may not tell its memory
        broken.discard("peak_rss_mb")
    assert {name for name, verdict in verdicts.items() if verdict is Verdict.BROKEN} == broken
    for name in ("parameters", "kv_cache_mb", "load_ms", "token_ms.max", "jitter", "idle_cpu_percent"):
        assert verdicts[name] is Verdict.KEPT


def test_machines_read_the_same_rows(checked: Check) -> None:
    document = json.loads(json.dumps(check_json(checked), allow_nan=False))
    assert document["broken"] is True
    assert document["verdicts"] == {
        verdict.value: sum(row["verdict"] == verdict.value for row in document["limits"])
        for verdict in Verdict
    }
    assert "kept" not in document  # what is within noise is neither
    assert document["processes"] == 6
    assert document["machine"]["versions"]["onnxruntime"]
    assert [row["name"] for row in document["limits"]] == [row.name for row in checked.rows]
    assert {row["verdict"] for row in document["limits"]} <= {verdict.value for verdict in Verdict}


SIZES = "name: sizes\nparameters: 1e6\nartifact_mb: 5\nkv_cache_mb: 1\nthreads: 4000\n"


def test_sizes_are_counted_without_measuring_or_loading(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor are the budget's threads or this machine's memory of any matter then."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("nothing is to be started")

    monkeypatch.setattr(check_module, "measure_process", never)
    monkeypatch.setattr(ort_backend, "open_session", never)
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: 1)
    sizes = check_file(file, budget(tmp_path, SIZES))
    assert (sizes.processes, sizes.noise, sizes.broken) == (0, (), ())
    figures = {row.name: row.estimate.value for row in sizes.rows if row.estimate is not None}
    assert figures["kv_cache_mb"] == 2 * 2 * 48 * 32 * 4 / 1e6


def test_what_is_counted_is_checked_as_what_is_loaded(file: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(file.read_bytes().replace(b"/blocks.0", b"/blocks.9", 1))
    with pytest.raises(ArtifactError, match="is damaged or was changed after its export"):
        check_file(damaged, budget(tmp_path, SIZES))


@pytest.mark.parametrize(
    ("limits", "plan"),
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
    tmp_path: Path, limits: str, plan: dict[str, Any]
) -> None:
    made = check_plan(budget(tmp_path, f"name: x\n{limits}\n"), 1, 2.0, 6)
    assert made is not None
    assert not made.apart
    assert {name: getattr(made, name) for name in plan} == plan


def test_every_process_asks_other_requests(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same ones would make one step of an allocator a leak in all of them."""
    seeds: list[int] = []

    def remembered(path: Path, plan: MeasureSpec) -> ProcessResult:
        seeds.append(plan.seed)
        return measure_process(path, replace(plan, requests=1))

    monkeypatch.setattr(check_module, "measure_process", remembered)
    few = check_file(file, budget(tmp_path, "name: x\nrss_slope_kb_per_1000: 1e9\n"))
    assert len(set(seeds)) == len(seeds) >= 6
    (sentence,) = few.advice
    assert "is of 50 requests in each process" in sentence


def test_a_bound_that_is_missing_is_said_with_what_would_give_it(figures: ProcessResult) -> None:
    row = rows({"ttft_ms.p99": 1.0}, {"ttft_ms.p99": Estimate(1.0, 0.5, inf)})
    few = replace(figures, first_token={8: Distribution((1.0,) * 23)}, seconds=10.0)
    (sentence,) = advice(row, [few] * 6, SECONDS_OPTION)
    assert sentence == (
        "ttft_ms.p99 has 138 of the 368 samples that an upper bound takes; --seconds 3.21 would be enough"
    )
    slow = [replace(few, seconds=1000.0)] * 6
    (sentence,) = advice(row, slow, SecondsOption("--edgegpt-seconds"))
    assert sentence.endswith("; --edgegpt-seconds 320 would be enough")
    (sentence,) = advice(row, slow, CHECK_OPTION)  # a report hands a quarter of its seconds on
    assert sentence.endswith("; --seconds 1280 would be enough")
    (sentence,) = advice(row, [replace(few, seconds=20_000.0)] * 6, SECONDS_OPTION)
    assert sentence.endswith("; --seconds 3600, the most that can be, would not be enough")
    jitter = rows({"jitter": 1.0}, {"jitter": Estimate(1.0, 0.5, inf)})
    fills = {16: Distribution((1.0,) * 60), 30: Distribution((1.0,) * 50)}
    (sentence,) = advice(jitter, [replace(few, token=fills)] * 6, SECONDS_OPTION)
    assert sentence.startswith("jitter has 300 of the 368 samples")


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ("ttft_ms: {prompt_tokens: 48, p50: 1}", "must be from 1 to 47 for .* got 48"),
        ("accuracy: {path: long.jsonl, minimum: 1}", "long.jsonl, line 3: the prompt has 3 tokens and"),
        ("accuracy: {path: pipe.jsonl, minimum: 1}", "pipe.jsonl is a pipe or a device, expected a .jsonl"),
    ],
)
def test_what_the_file_cannot_be_held_to_is_refused_before_measuring(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: str, sentence: str
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("it measures before it knows its input")

    monkeypatch.setattr(check_module, "measure_process", never)
    good, long = ({"prompt": "go", "completion": text} for text in ("left", "x y " * 30))
    (tmp_path / "long.jsonl").write_text(f"{json.dumps(good)}\n\n{json.dumps(long)}\n")
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises((DataError, MeasureError), match=sentence):
        check_file(file, budget(tmp_path, f"name: x\nload_ms: 1\n{limits}\n"))


@pytest.mark.parametrize(
    ("architecture", "name", "why"),
    [
        ("x86_64", None, "this machine is x86_64 and not aarch64"),
        ("aarch64", "Raspberry Pi 4 Model B", "this machine is a Raspberry Pi 4 Model B and not a Raspberry"),
        ("aarch64", "Raspberry Pi 5 Model B Rev 1.0", ""),
        ("aarch64", None, ""),  # such as in a container
        ("arm64", None, ""),
    ],
)
def test_on_another_machine_than_the_budgets_board_a_check_says_that_it_proves_nothing(
    architecture: str, name: str | None, why: str
) -> None:
    board = Budget.from_yaml(Path(__file__).parents[1] / "configs/budgets/raspberry-pi-5.yaml").board
    here = replace(MACHINE, architecture=architecture, board=name)
    timed = rows({"load_ms": 1.0}, {"load_ms": Estimate.exact(0.5)})
    said = list(elsewhere(board, here, timed))
    assert len(said) == bool(why)
    assert all("prove nothing for Raspberry Pi 5" in line and why in line for line in said)
    counted = rows({"parameters": 1.0}, {"parameters": Estimate.exact(0.5)})
    assert not list(elsewhere(board, here, counted))
    assert not list(elsewhere(None, here, timed))


def test_a_check_hands_on_that_this_is_not_the_board(
    file: Path, tmp_path: Path, figures: ProcessResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_module, "measure_process", lambda *_: figures)
    made = budget(tmp_path, "name: x\nload_ms: 1e9\nboard: {description: a robot, architecture: riscv64}\n")
    checked = check_file(file, made)
    (sentence,) = check_json(checked)["advice"]
    assert "prove nothing for a robot" in sentence
    assert f"{sentence}." in remarks(checked)


def test_the_callers_own_work_before_is_no_load(file: Path, tmp_path: Path) -> None:
    before = replace(this_machine(), load=123.0)
    made = check_file(file, budget(tmp_path, SIZES), before=before)
    assert made.machine is before


def test_a_process_that_lost_its_core_is_measured_again_and_the_least_disturbed_count(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve at most; which six count depends on how long they waited and not on what they measured."""

    def loads_of(waited: list[float]) -> tuple[int, tuple[float, float]]:
        figures = [
            replace(one_process, waited_percent=w, load_ms=float(i), load_waited_ms=0.0)
            for i, w in enumerate(waited)
        ]
        left = iter(figures)
        monkeypatch.setattr(check_module, "measure_process", lambda *_: next(left))
        (row,) = check_file(file, budget(tmp_path, "name: x\nload_ms: 1\n")).rows
        assert row.estimate is not None
        return len(waited) - len(list(left)), (row.estimate.low, row.estimate.high)

    one_process = measure_process(file, MeasureSpec(prompts=(8,), seconds=0.01, idle_seconds=0))
    assert loads_of([0.0] * 12) == (6, (0.0, 5.0))
    assert loads_of([50.0, 0.0, 60.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]) == (8, (1.0, 7.0))
    assert loads_of([50.0] * 6 + [40.0] * 6) == (12, (6.0, 11.0))


def test_the_measured_peak_is_held_to_the_boards_memory(
    file: Path, tmp_path: Path, figures: ProcessResult, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """As a plan does; and the reader sees that the limit is the board's and not the budget's."""
    peak = replace(figures, peak_rss_bytes=83_700_000)
    monkeypatch.setattr(check_module, "measure_process", lambda *_: peak)
    board = "board: {description: b, memory_mb: {value: 60, basis: published, source: s}}\n"
    path = budget_file(tmp_path, f"name: small\nload_ms: 1e9\n{board}")
    assert main(["check", str(file), "--budget", str(path), *SECONDS]) == 1
    output = capsys.readouterr()
    assert "60 (board)" in output.out
    assert "peak_rss_mb is 83.7, the board's memory is 60" in " ".join(output.err.split())
    held = check_file(file, Budget.from_yaml(path))
    assert [row["limit_of"] for row in check_json(held)["limits"]] == ["budget", "board"]
    given = check_file(file, budget(tmp_path, f"name: small\npeak_rss_mb: 50\n{board}"))
    assert [(row.name, row.limit, row.of_board) for row in given.rows] == [("peak_rss_mb", 50, False)]
    counted = check_file(file, budget(tmp_path, f"name: small\nparameters: 1e6\n{board}"))
    assert (counted.processes, [row.name for row in counted.rows]) == (0, ["parameters"])


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


def test_a_file_that_keeps_its_budget_exits_with_0(file: Path, tmp_path: Path, capsys: Capture) -> None:
    path = budget_file(tmp_path, "name: roomy\nparameters: 1e6\nload_ms: 1e9\ntoken_ms: {p50: 1e9}\n")
    assert main(["check", str(file), "--budget", str(path), *SECONDS]) == 0
    output = " ".join(capsys.readouterr().out.split())
    for word in ("load_ms", "1,000,000,000", "+100%", "kept", "6 processes, 1 thread", "onnxruntime"):
        assert word in output


def test_a_file_that_falls_short_exits_with_1_and_says_by_how_much(
    file: Path, tmp_path: Path, capsys: Capture
) -> None:
    path = budget_file(tmp_path, "name: tight\nparameters: 1000\nartifact_mb: 5\n")
    assert main(["check", str(file), "--budget", str(path)]) == 1
    output = capsys.readouterr()
    assert "broken" in output.out
    assert output.err.startswith(f"edgegpt: {file} falls short of the budget 'tight': parameters is ")
    assert output.err.endswith(", the limit is 1,000\n")
    assert main(["check", str(file), "--budget", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["broken"] is True


def test_a_goal_that_nobody_measured_on_the_board_is_called_one(
    file: Path, tmp_path: Path, capsys: Capture
) -> None:
    text = "name: b\nparameters: 1e6\nboard: {description: A robot's board, never_measured: [parameters]}"
    assert main(["check", str(file), "--budget", str(budget_file(tmp_path, text))]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "The budget is for: A robot's board" in output
    assert "Goals that nobody has measured on that board yet: parameters" in output


def test_a_busy_machine_is_said_with_its_load(
    file: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (77.0, 0.0, 0.0))
    path = budget_file(tmp_path, "name: tight\nload_ms: 1e-3\n")
    assert main(["check", str(file), "--budget", str(path), *SECONDS]) == 1
    output = capsys.readouterr()
    assert "the load average was 77.0 before the start" in " ".join(output.out.split())
    assert output.err.endswith("(this machine was not quiet while it measured)\n")


def test_what_cannot_be_checked_is_refused_in_one_sentence(
    file: Path, tmp_path: Path, capsys: Capture
) -> None:
    good = str(budget_file(tmp_path, "name: x\nload_ms: 1e9\nttft_ms: {prompt_tokens: 99, p50: 1}\n"))
    none = str(tmp_path / "none")
    assert "none does not exist" in refused(capsys, none, "--budget", good)
    assert "none does not exist" in refused(capsys, str(file), "--budget", none)
    assert "is not a whole ONNX file" in refused(capsys, good, "--budget", good)
    os.mkfifo(tmp_path / "pipe")
    assert "pipe is not a file" in refused(capsys, str(tmp_path / "pipe"), "--budget", good)
    assert "pipe is a pipe or a device" in refused(capsys, str(file), "--budget", str(tmp_path / "pipe"))
    assert "is a folder" in refused(capsys, str(tmp_path), "--budget", good)
    assert "is a folder" in refused(capsys, str(file), "--budget", str(tmp_path))
    assert "threads must be at most" in refused(capsys, str(file), "--budget", good, "--threads", "9999")
    assert "at least 6, got 2" in refused(capsys, str(file), "--budget", good, "--processes", "2")
    assert "got nan" in refused(capsys, str(file), "--budget", good, "--seconds", "nan")
    assert "from 1 to 47 for" in refused(capsys, str(file), "--budget", good)
    examples = str(budget_file(tmp_path, "name: x\naccuracy: {path: none.jsonl, minimum: 1}\n"))
    assert "none.jsonl cannot be read" in refused(capsys, str(file), "--budget", examples)
