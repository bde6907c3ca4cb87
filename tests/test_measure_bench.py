"""`edgegpt bench`: its arithmetic on made figures, and the command as a user types it. No times."""

import json
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from conftest import CommandError
from helpers.sample_figures import BLIND, FIGURES, MACHINE, SILENT
from helpers.tiny_files import tiny_file
from rich.console import Console

from edgegpt.cli.bench import bench_tables
from edgegpt.cli.main import main
from edgegpt.measure import INSIDE, Bandwidth, Bench, MeasureSpec, run_bench
from edgegpt.measure.bench import PROCESSES
from edgegpt.measure.plot import draw, save_plot
from edgegpt.runtime import File

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


# Arithmetic


def test_a_token_reads_the_weights_and_what_is_in_the_cache_whatever_its_size() -> None:
    assert MADE.bytes_per_token(50) == 4_000_000 + 1_000_000 * 50 // 100
    assert MADE.bytes_per_second(50) == 4_500_000 / 0.002
    halved = replace(MADE, spec=MeasureSpec(capacity=50), processes=(replace(FIGURES, cache_bytes=500_000),))
    assert halved.bytes_per_token(50) == MADE.bytes_per_token(50)


def test_json_compares_with_both_bandwidths_and_holds_the_process_that_needed_most() -> None:
    data = json.loads(json.dumps(MADE.to_json(), allow_nan=False))
    (token,) = data["token_ms"]
    assert token["share_of_memory_bandwidth"] == pytest.approx(2.25e9 / 9e9)
    assert token["share_of_model_bandwidth"] == pytest.approx(2.25e9 / 18e9)
    assert token["tokens_per_second"] == pytest.approx(1000 * 100 / (98 * 2 + 3 + 5))
    assert (token["p50"], token["p99"], token["max"], token["jitter"]) == (2.0, 3.0, 5.0, 1.5)
    assert data["load_ms"]["max"] == 170.0
    assert data["memory"]["peak_rss_bytes"] == 64_000_000
    worked = {"rss_bytes": 62_000_000, "private_bytes": 40_000_000, "mapped_bytes": 22_000_000}
    assert data["memory"]["worked"] == worked


# What people read


def test_the_tables_define_each_figure_and_name_the_machine() -> None:
    text = shown(MADE)
    for part in (*(name.replace("_", " ") for name in INSIDE), *INSIDE.values(), MACHINE.cpu, "25%", "12%"):
        assert part in text  # 25 % of memory bandwidth, 12 % of the bandwidth at this size


@pytest.mark.parametrize(
    ("changes", "note", "noted"),
    [
        ({}, "100 %", True),  # a model in the cache may exceed memory bandwidth
        ({"file": replace(FILE, bytes=9_000_000)}, "100 %", False),
        ({"machine": replace(MACHINE, last_level_cache_bytes=None)}, "100 %", True),
        ({"file": replace(FILE, target="portable")}, "portable file", True),  # which copies its cache
        ({}, "portable file", False),
    ],
)
def test_what_explains_a_surprising_bandwidth_has_a_note(
    changes: dict[str, Any], note: str, noted: bool
) -> None:
    assert (note in shown(replace(MADE, **changes))) == noted


def test_a_busy_machine_is_named_in_table_json_and_plot() -> None:
    for result in (MADE, replace(MADE, noise=("the load was 9",))):
        said = bool(result.noise)
        assert ("the load was 9" in shown(result)) == bool(result.to_json()["noise"]) == said
        assert ("quiet" in draw(result).get_suptitle()) == said


def test_what_the_system_does_not_report_is_unknown_and_no_error() -> None:
    result = replace(MADE, processes=(replace(FIGURES, **BLIND),), machine=SILENT)
    assert "unknown" in shown(result)
    assert result.to_json()["memory"]["loaded"] is None


# The plot


def test_the_plot_names_every_axis_and_draws_what_was_measured() -> None:
    axes: list[Any] = draw(MADE).axes
    first, token, tail = axes
    assert all(part.get_xlabel() and part.get_ylabel() == "milliseconds" for part in axes)
    assert len(first.lines) == 2
    assert [line.get_ydata()[0] for line in token.lines] == [2.0, 2.0, 3.0, 5.0]  # p50, p90, p99, max
    (line,) = tail.lines
    assert list(line.get_xdata()[-2:]) == [50.0, 100.0]  # one in 50 is as slow as 3 ms, one in 100 as 5


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".PNG"])
def test_a_plot_is_written_in_the_format_of_its_suffix(tmp_path: Path, suffix: str) -> None:
    save_plot(MADE, tmp_path / f"bench{suffix}")
    begin = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix.lower()]
    (written,) = tmp_path.iterdir()
    assert written.name == f"bench{suffix}"
    assert written.read_bytes().startswith(begin)


# As a user types it


@pytest.mark.slow
def test_bench_measures_prints_json_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, picture = tiny_file(tmp_path), tmp_path / "tiny.png"
    assert main(["bench", str(file), "--seconds", "0", "--json", "--plot", str(picture)]) == 0
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [row["prompt_tokens"] for row in data["first_token_ms"]] == [8, 32, 47]
    assert [row["cache_fill"] for row in data["token_ms"]] == [16, 24, 35]
    assert data["processes"] == data["load_ms"]["samples"] == PROCESSES
    assert data["rounds"] == 3 * PROCESSES
    assert data["memory_bandwidth"]["buffer_bytes"] > data["model_bandwidth"]["buffer_bytes"]
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_bench_shows_its_progress_and_takes_a_portable_file(tmp_path: Path) -> None:
    shares: list[float] = []
    spec = MeasureSpec(seconds=0.0, idle_seconds=0.0, bandwidth=True)
    result = run_bench(tiny_file(tmp_path, "portable"), spec, on_progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert result.file.target == "portable"


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ([], "none.onnx"),
        (["--threads", "0"], "threads 0"),
        (["--seconds=-1"], "seconds -1"),
        (["--seconds=nan"], "seconds nan"),
        (["--seconds=x"], "seconds 'x'"),
        (["--plot", "x.jpg"], "--plot x.jpg .svg"),
        (["--plot", "x"], "--plot 'x' .svg"),
        (["--plot", "missing/x.png"], "--plot missing"),
        (["--plot", "folder.png"], "--plot folder.png"),
    ],
)
def test_what_cannot_be_measured_or_drawn_is_refused_before_measuring(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    command_error: CommandError,
    options: list[str],
    values: str,
) -> None:
    monkeypatch.chdir(folder)
    (folder / "folder.png").mkdir()
    message = command_error("bench", "none.onnx", *options)
    assert [value for value in values.split() if value not in message] == []
    assert ("none.onnx" in message) == (options == [])  # the options come first


def test_without_matplotlib_the_extra_is_named(
    tmp_path: Path, command_error: CommandError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("edgegpt.measure.save_plot")  # first, as this loads the module
    monkeypatch.delitem(sys.modules, "edgegpt.measure.plot")
    for name in ("matplotlib", "matplotlib.axes"):
        monkeypatch.setitem(sys.modules, name, None)
    assert "[report]" in command_error("bench", "none.onnx", "--plot", tmp_path / "x.png")


def test_bench_without_a_plot_loads_no_matplotlib() -> None:
    code = "import sys; import edgegpt.measure.bench, edgegpt.cli.bench; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "matplotlib" not in run.stdout.split()
