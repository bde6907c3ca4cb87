"""`edgegpt check`: a file beside a budget, measured in fresh processes."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgegpt import check as check_module
from edgegpt import memory_need
from edgegpt.budget import Budget
from edgegpt.check import Check, check, check_json
from edgegpt.cli.main import main
from edgegpt.errors import MeasureError
from edgegpt.measure.plan import Plan
from edgegpt.measure.process import measure_process
from edgegpt.memory_need import RUNTIME_BYTES, check_memory, least_bytes
from edgegpt.verdict import Verdict
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
def checked(file: Path) -> Check:
    """Everything that a budget can limit, measured once."""
    (file.parent / "examples.jsonl").write_text('{"prompt": "turn", "completion": "left"}\n')
    return check(file, budget(file.parent, EVERYTHING), seconds=0.01)


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


def test_too_few_samples_for_a_p99_are_within_noise_and_no_failure(checked: Check) -> None:
    (row,) = [row for row in checked.rows if row.name == "ttft_ms.p99"]
    assert row.verdict is Verdict.WITHIN_NOISE
    assert row not in checked.broken


def test_machines_read_the_same_rows(checked: Check) -> None:
    document = json.loads(json.dumps(check_json(checked), allow_nan=False))
    assert document["broken"] is True
    assert document["processes"] == 6
    assert document["machine"]["versions"]["onnxruntime"]
    assert [row["name"] for row in document["limits"]] == [row.name for row in checked.rows]
    assert {row["verdict"] for row in document["limits"]} <= {verdict.value for verdict in Verdict}


def test_sizes_are_counted_without_measuring(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("no process is needed")

    monkeypatch.setattr(check_module, "measure_process", never)
    sizes = check(file, budget(tmp_path, "name: sizes\nparameters: 1e6\nartifact_mb: 5\n"))
    assert (sizes.processes, sizes.noise, sizes.broken) == (0, (), ())


def test_a_process_that_lost_its_core_is_measured_again_and_the_least_disturbed_count(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve at most; which six count depends on how long they waited and not on what they measured."""

    def loads_of(waited: list[float]) -> tuple[int, tuple[float, float]]:
        figures = [replace(one_process, waited_percent=w, load_ms=float(i)) for i, w in enumerate(waited)]
        left = iter(figures)
        monkeypatch.setattr(check_module, "measure_process", lambda *_: next(left))
        (row,) = check(file, budget(tmp_path, "name: x\nload_ms: 1\n")).rows
        assert row.estimate is not None
        return len(waited) - len(list(left)), (row.estimate.low, row.estimate.high)

    one_process = measure_process(file, Plan(prompts=(8,), seconds=0.01, idle_seconds=0))
    assert loads_of([0.0] * 12) == (6, (0.0, 5.0))
    assert loads_of([50.0, 0.0, 60.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]) == (8, (1.0, 7.0))
    assert loads_of([50.0] * 6 + [40.0] * 6) == (12, (6.0, 11.0))


# Memory, before anything is loaded


def test_a_model_too_large_for_the_board_is_found_before_it_is_loaded(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the file was loaded")

    monkeypatch.setattr(check_module, "open_artifact", never)
    monkeypatch.setattr(check_module, "measure_process", never)
    board = "{description: a wristwatch, memory_mb: {value: 32, basis: published, source: its box}}"
    with pytest.raises(MeasureError, match=r"needs at least 50 MB .* \(a wristwatch\) has 32 MB"):
        check(file, budget(tmp_path, f"name: small\nload_ms: 1\nboard: {board}"))


def test_a_model_too_large_for_what_is_free_here_is_found_too(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_need, "available_memory_bytes", lambda: 10_000_000)
    with pytest.raises(MeasureError, match="this machine has 10 MB free"):
        check_memory(file, None)
    monkeypatch.setattr(memory_need, "available_memory_bytes", lambda: None)
    check_memory(file, None)  # a system that does not tell is not guessed at


def test_the_least_memory_is_the_runtime_the_file_and_one_cache(file: Path) -> None:
    cache = 2 * 2 * 48 * 32 * 4  # keys and values of 2 layers, 48 positions, 32 wide, float32
    assert least_bytes(file) == RUNTIME_BYTES + file.stat().st_size + cache
    assert least_bytes(file.with_name("none.onnx")) is None


# The command


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
    assert "is a folder" in refused(capsys, str(tmp_path), "--budget", good)
    assert "is a folder" in refused(capsys, str(file), "--budget", str(tmp_path))
    assert "threads must be at most" in refused(capsys, str(file), "--budget", good, "--threads", "9999")
    assert "at least 6, got 2" in refused(capsys, str(file), "--budget", good, "--processes", "2")
    assert "got nan" in refused(capsys, str(file), "--budget", good, "--seconds", "nan")
    assert "from 1 to 47 tokens, got 99" in refused(capsys, str(file), "--budget", good)
    examples = str(budget_file(tmp_path, "name: x\naccuracy: {path: none.jsonl, minimum: 1}\n"))
    assert "none.jsonl cannot be read" in refused(capsys, str(file), "--budget", examples)
