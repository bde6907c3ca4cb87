"""edgegpt.cli.output: seen on a terminal, silent in a pipe, and never a thread that draws."""

import threading
from io import StringIO

import pytest
from rich.console import Console

from edgegpt.cli import output as progress


@pytest.fixture(params=[True, False], ids=["terminal", "pipe"])
def console(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Console:
    made = Console(file=StringIO(), force_terminal=request.param, width=60, markup=False, _environ={})
    monkeypatch.setattr(progress, "stderr", made)
    return made


def text(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_a_step_is_shown_at_once_and_no_thread_draws(console: Console) -> None:
    threads = threading.active_count()
    with progress.steps() as on_step:
        on_step("measuring [1], 2 of 6 done")
        assert ("measuring [1], 2 of 6 done" in text(console)) == console.is_terminal
        assert threading.active_count() == threads
    assert console.is_terminal or text(console) == ""


def test_a_bar_moves_once_a_second_and_no_thread_draws(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, drawn, threads = 0.0, 0, threading.active_count()
    monkeypatch.setattr(progress, "perf_counter", lambda: now)
    with progress.measuring(visible=True) as on_progress:
        for i in range(50):
            now, before = 0.1 * i, text(console)
            on_progress(i / 50)
            drawn += text(console) != before
        assert threading.active_count() == threads
    assert 4 <= drawn <= 6 if console.is_terminal else text(console) == ""
