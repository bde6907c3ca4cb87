"""Commands that are ended: one line for Ctrl-C, and neither files nor processes are left."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Typed

from edgegpt.__main__ import run
from edgegpt.cli.main import main

BUDGET = Path(__file__).parents[1] / "configs" / "budgets" / "ci.yaml"
Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("command", "work"),
    [
        # Where the command finds its work: the face of a room, which keeps a name once it was used.
        ("bench FILE", "edgegpt.measure.run_bench"),
        (f"check FILE --budget {BUDGET}", "edgegpt.budget.check_file"),
        ("eval FILE DATA", "edgegpt.runtime.evaluate"),
        ("export CHECKPOINT --out OUT/x.onnx", "edgegpt_export.export_checkpoint"),
        ("generate FILE hello", "edgegpt.runtime.load"),
        ("profile --out OUT/x.yaml", "edgegpt.profiling.profile_board"),
        ("tune FILE", "edgegpt.autotune.autotune"),
        ("export CHECKPOINT --out OUT/x.onnx", "edgegpt_export.export.build"),  # in the middle
    ],
)
def test_an_interrupted_command_is_one_line_and_leaves_no_file(
    command: str, work: str, typed: Typed, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def ctrl_c(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(work, ctrl_c)
    assert main(typed(command)) == 130
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.splitlines()[-1] == "edgegpt: interrupted"
    assert "Traceback" not in output.err
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_bench_that_is_ended_leaves_no_process(how: signal.Signals, file: Path) -> None:
    """The signal goes to the command alone, as from a supervisor."""
    command = [sys.executable, "-m", "edgegpt", "bench", str(file), "--seconds", "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as bench:
        children = Path(f"/proc/{bench.pid}/task/{bench.pid}/children")
        while not (child := children.read_text().strip()):
            assert bench.poll() is None
            time.sleep(0.01)
        bench.send_signal(how)
        output = bench.communicate(timeout=60)
    if how == signal.SIGINT:
        assert (bench.returncode, *output) == (130, "", "edgegpt: interrupted\n")
    for _ in range(1000):  # a process that has just begun ends when it finds its pipe closed
        if not runs(child):
            return
        time.sleep(0.01)
    pytest.fail("the process that measures goes on")


def runs(process: str) -> bool:
    """Return whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_an_import_in_c_that_ctrl_c_breaks_is_called_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def load() -> int:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("import numpy failed") from None
        return 0

    monkeypatch.setattr("edgegpt.cli.main.main", load)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit) as end:
            run()
    finally:
        signal.signal(signal.SIGINT, before)
    assert end.value.code == 130
    assert capsys.readouterr().err == "edgegpt: interrupted\n"
