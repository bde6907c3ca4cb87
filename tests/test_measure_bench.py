"""`edgegpt bench`: its arithmetic on made figures, and the command as a user types it. No times."""

import json
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from helpers.sample_figures import FIGURES, MACHINE
from helpers.tiny_files import tiny_file
from rich.console import Console

from edgegpt.cli.bench import bench_tables
from edgegpt.cli.main import main
from edgegpt.measure.bench import INSIDE, PROCESSES, Bench, run_bench
from edgegpt.measure.machine import this_machine
from edgegpt.measure.plot import draw, save_plot
from edgegpt.measure.spec import Bandwidth, MeasureSpec
from edgegpt.runtime.onnx_file import File

Capture = pytest.CaptureFixture[str]

FILE = File("hand.onnx", "engine", "fp32", 1_000_000, 4_100_000, 100, 4_000_000)
MADE = Bench(
    file=FILE,
    machine=MACHINE,
    spec=MeasureSpec(bandwidth=True),
    processes=(FIGURES, replace(FIGURES, load_ms=170.0, peak_rss_bytes=64_000_000, tokenise_tokens=27)),
    first_token=FIGURES.first_token,
    token=FIGURES.token,
    bandwidth=(Bandwidth(16_000_000, 9e9), Bandwidth(4_000_000, 18e9)),
    noise=(),
)


def shown(result: Bench) -> str:
    console = Console(file=StringIO(), width=100, record=True, markup=False, highlight=False)
    for part in bench_tables(result):
        console.print(part)
    return " ".join(console.export_text().split())


def refusal(capsys: Capture, *arguments: str) -> str:
    """Return the one sentence of a command that is refused before it measures."""
    assert main(["bench", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("edgegpt: ")
    assert output.err.count("\n") == 1
    return output.err


# Arithmetic


def test_a_token_reads_the_weights_and_what_is_in_the_cache() -> None:
    assert MADE.bytes_per_token(50) == 4_000_000 + 1_000_000 * 50 // 100
    assert MADE.bytes_per_second(50) == 4_500_000 / 0.002


def test_a_smaller_cache_costs_the_same_for_each_token_in_it() -> None:
    halved = replace(MADE, spec=MeasureSpec(capacity=50), processes=(replace(FIGURES, cache_bytes=500_000),))
    assert halved.bytes_per_token(50) == MADE.bytes_per_token(50)


def test_json_compares_with_both_bandwidths() -> None:
    (token,) = MADE.to_json()["token_ms"]
    assert token["share_of_memory_bandwidth"] == pytest.approx(2.25e9 / 9e9)
    assert token["share_of_model_bandwidth"] == pytest.approx(2.25e9 / 18e9)
    assert token["tokens_per_second"] == pytest.approx(1000 * 100 / (98 * 2 + 3 + 5))
    assert (token["p50"], token["p99"], token["max"], token["jitter"]) == (2.0, 3.0, 5.0, 1.5)


def test_json_holds_the_process_that_needed_most() -> None:
    data = MADE.to_json()
    assert data["memory"]["peak_rss_bytes"] == 64_000_000
    assert data["load_ms"]["max"] == 170.0
    assert data["memory"]["worked"] == {
        "rss_bytes": 62_000_000,
        "private_bytes": 40_000_000,
        "mapped_bytes": 22_000_000,
    }
    json.dumps(data, allow_nan=False)


# What people read


def test_the_tables_define_each_figure_and_name_the_machine() -> None:
    text = shown(MADE)
    for name in INSIDE:
        assert f"{name.replace('_', ' ')}: " in text
    assert MACHINE.cpu in text
    assert "25% │ 12%" in text  # of memory bandwidth, and of the bandwidth at this size


def test_a_model_in_the_cache_may_exceed_memory_bandwidth_which_has_a_note() -> None:
    fits, unknown = MADE, replace(MADE, machine=replace(MACHINE, last_level_cache_bytes=None))
    for result, noted in (
        (fits, True),
        (replace(MADE, file=replace(FILE, bytes=9_000_000)), False),
        (unknown, True),
    ):
        assert ("100 %" in shown(result)) == noted


def test_the_note_on_bytes_is_longer_for_a_portable_file_which_copies_its_cache() -> None:
    assert "portable file" in shown(replace(MADE, file=replace(FILE, target="portable")))
    assert "portable file" not in shown(MADE)


def test_a_busy_machine_is_named_in_table_json_and_plot() -> None:
    noisy = replace(MADE, noise=("the load was 9",))
    for result in (MADE, noisy):
        said = result is noisy
        assert ("the load was 9" in shown(result)) == said
        assert bool(result.to_json()["noise"]) == said
        assert ("quiet" in (draw(result).get_suptitle())) == said


def test_what_the_system_does_not_report_is_unknown_and_no_error() -> None:
    blind = replace(
        FIGURES, imported=None, loaded=None, worked=None, peak_rss_bytes=None, idle_cpu_percent=None
    )
    silent = replace(MACHINE, load=None, governor=None, last_level_cache_bytes=None, memory_bytes=None)
    result = replace(MADE, processes=(blind,), machine=silent)
    assert "peak RSS │ unknown" in shown(result)
    assert result.to_json()["memory"]["loaded"] is None


# The plot


def test_the_plot_names_every_axis_with_its_unit() -> None:
    figure = draw(MADE)
    assert [axes.get_ylabel() for axes in figure.axes] == ["milliseconds"] * 3
    assert all(axes.get_xlabel() for axes in figure.axes)
    assert len(figure.axes) == 3


def test_the_plot_draws_what_was_measured() -> None:
    first, token, tail = draw(MADE).axes
    assert [line.get_label() for line in first.lines] == ["p50", "p99"]
    assert {line.get_label(): line.get_ydata()[0] for line in token.lines} == {
        "p50": 2.0,
        "p90": 2.0,
        "p99": 3.0,
        "max": 5.0,
    }
    (line,) = tail.lines
    assert list(line.get_xdata()[-2:]) == [50.0, 100.0]  # one in 50 is as slow as 3 ms, one in 100 as 5
    assert [label.get_text() for label in tail.get_xticklabels()] == ["50 %", "90 %", "99 %"]


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".PNG"])
def test_a_plot_is_written_in_the_format_of_its_suffix(tmp_path: Path, suffix: str) -> None:
    save_plot(MADE, tmp_path / f"bench{suffix}")
    begin = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix.lower()]
    assert (tmp_path / f"bench{suffix}").read_bytes().startswith(begin)
    assert [path.name for path in tmp_path.iterdir()] == [f"bench{suffix}"]


# As a user types it


@pytest.mark.slow
def test_bench_measures_prints_json_and_draws(tmp_path: Path, capsys: Capture) -> None:
    file, picture = tiny_file(tmp_path), tmp_path / "tiny.png"
    assert main(["bench", str(file), "--seconds", "0", "--json", "--plot", str(picture)]) == 0
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [row["prompt_tokens"] for row in data["first_token_ms"]] == [8, 32, 47]
    assert [row["cache_fill"] for row in data["token_ms"]] == [16, 24, 35]
    assert data["processes"] == PROCESSES
    assert data["load_ms"]["samples"] == PROCESSES
    assert data["rounds"] == 3 * PROCESSES
    assert data["memory_bandwidth"]["buffer_bytes"] > data["model_bandwidth"]["buffer_bytes"]
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_bench_shows_its_progress_and_takes_a_portable_file(tmp_path: Path) -> None:
    shares: list[float] = []
    file = tiny_file(tmp_path, "portable")
    result = run_bench(
        file, MeasureSpec(seconds=0.0, idle_seconds=0.0, bandwidth=True), on_progress=shares.append
    )
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert "portable, fp32" in shown(result)


def test_threads_that_cannot_be_are_refused(tmp_path: Path, capsys: Capture) -> None:
    file = str(tiny_file(tmp_path))
    for threads in ("0", str(this_machine().available_cores + 1)):
        assert threads in refusal(capsys, file, "--threads", threads)


def test_a_missing_and_a_damaged_file_are_refused(tmp_path: Path, capsys: Capture) -> None:
    assert "none.onnx" in refusal(capsys, str(tmp_path / "none.onnx"))
    (tmp_path / "damaged.onnx").write_bytes(tiny_file(tmp_path).read_bytes()[:-1000])
    assert "damaged.onnx" in refusal(capsys, str(tmp_path / "damaged.onnx"))


@pytest.mark.parametrize(
    ("plot", "values"),
    [
        ("x.jpg", ("x.jpg", ".svg")),
        ("x", ("/x'", ".svg")),
        ("missing/x.png", ("missing",)),
        ("folder.png", ("folder.png",)),
    ],
)
def test_a_plot_that_cannot_be_written_is_refused_before_measuring(
    tmp_path: Path, capsys: Capture, plot: str, values: tuple[str, ...]
) -> None:
    (tmp_path / "folder.png").mkdir()
    message = refusal(capsys, str(tmp_path / "none.onnx"), "--plot", str(tmp_path / plot))
    assert all(value in message for value in ("--plot", *values))
    assert "none.onnx" not in message  # it comes first


def test_without_matplotlib_the_extra_is_named(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "edgegpt.measure.plot")
    monkeypatch.delattr("edgegpt.measure.save_plot", raising=False)  # where a test has used it before
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    message = refusal(capsys, str(tmp_path / "none.onnx"), "--plot", str(tmp_path / "x.png"))
    assert "[report]" in message


def test_bench_without_a_plot_loads_no_matplotlib() -> None:
    code = "import sys; import edgegpt.measure.bench, edgegpt.cli.bench; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "matplotlib" not in run.stdout.split()


@pytest.mark.parametrize("seconds", ["-1", "nan", "x"])
def test_a_measuring_time_that_cannot_be_is_refused(tmp_path: Path, capsys: Capture, seconds: str) -> None:
    assert "seconds" in refusal(capsys, str(tmp_path / "none.onnx"), f"--seconds={seconds}")
