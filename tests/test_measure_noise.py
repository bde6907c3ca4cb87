"""Whether a machine was quiet, and what a process waited."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.sample_figures import FIGURES

from edgegpt.measure.machine import this_machine
from edgegpt.measure.noise import load_noise, measured_noise, quietness
from edgegpt.system import Moment, _ticks, waited_seconds

# Noise


def test_a_quiet_machine_has_nothing_to_say() -> None:
    quiet = replace(FIGURES, waited_percent=0.5, round_ms=(1.0, 1.01, 1.02))
    assert measured_noise([quiet], replace(this_machine(), load=1.0, cores=2), 1) == ()


def test_a_busy_machine_is_said_with_its_load() -> None:
    busy = replace(FIGURES, waited_percent=12.0, round_ms=(1.0, 1.0, 1.5, 1.6))
    load, waited, spread = measured_noise([busy], replace(this_machine(), load=1.4, cores=2), 1)
    assert "load average was 1.4" in load
    assert "2 cores" in load
    assert "12 % of the time" in waited
    assert "between 1.000 and 1.600 ms" in spread


def test_a_system_that_does_not_tell_is_said_but_its_load_is_not_guessed() -> None:
    unknown = replace(FIGURES, waited_percent=None, round_ms=(1.0,))
    (sentence,) = measured_noise([unknown], replace(this_machine(), load=None), 1)
    assert "does not tell whether other work had" in sentence
    assert quietness([sentence]) == "may not have been quiet"
    assert quietness([sentence, "the load was 9"]) == quietness(["the load was 9"]) == "was not quiet"


def test_loads_that_waited_are_said() -> None:
    assert load_noise([replace(FIGURES, load_ms=200.0, load_waited_ms=2.0)]) == ()
    assert load_noise([replace(FIGURES, load_waited_ms=None)]) == ()
    (sentence,) = load_noise([replace(FIGURES, load_ms=200.0, load_waited_ms=60.0)])
    assert "while files were loaded" in sentence
    assert "30 % of the time" in sentence
    (sentence,) = load_noise([replace(FIGURES, load_ms=200.0, load_waited_ms=300.0)])
    assert "100 % of the time" in sentence  # the wait is of the interpreter's start too


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


def test_a_system_that_counts_no_lost_cores_does_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its 0 would be the quietest machine of all."""
    used = SimpleNamespace(ru_nivcsw=0)
    fake = SimpleNamespace(RUSAGE_SELF=0, getrusage=lambda _: used)
    monkeypatch.setitem(sys.modules, "resource", fake)
    assert waited_seconds(tmp_path / "none") is None
    used.ru_nivcsw = 3
    assert waited_seconds(tmp_path / "none") == pytest.approx(0.012)
