"""The least memory of a file, found before it is loaded."""

from pathlib import Path

import pytest
from conftest import Refused

from edgegpt import contract
from edgegpt.budget import check as check_module, memory
from edgegpt.budget.budget import Budget
from edgegpt.budget.check import check_file
from edgegpt.budget.memory import RUNTIME_BYTES, check_memory, least_bytes
from edgegpt.errors import MeasureError
from edgegpt.runtime.onnx_file import metadata_entry

CACHE = 2 * 2 * 48 * 32 * 4  # keys and values of 2 layers, 48 positions, 32 wide, float32


@pytest.mark.parametrize(("megabytes", "runtime"), [("32", RUNTIME_BYTES), ("1e-6", 0)])
def test_a_model_too_large_for_the_board_is_refused_before_it_is_loaded(
    file: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused, megabytes: str, runtime: int
) -> None:
    for name in ("summarize_artifact", "measure_process"):
        monkeypatch.setattr(check_module, name, lambda *_: pytest.fail("the file was read"))
    monkeypatch.setattr(memory, "RUNTIME_BYTES", runtime)
    board = f"{{description: a watch, memory_mb: {{value: {megabytes}, basis: published, source: its box}}}}"
    budget = Budget.parse(f"name: small\nload_ms: 1\nboard: {board}".encode(), "budget.yaml")
    with refused(MeasureError, "a watch", f"{float(megabytes):.0f} MB"):
        check_file(file, budget)


def test_a_model_too_large_for_what_is_free_here_is_refused_too(
    file: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: 10_000_000)
    with refused(MeasureError, file, "10 MB"):
        check_memory(file, None)
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: None)
    check_memory(file, None)  # what the system does not report is not guessed


def test_the_least_memory_is_the_runtime_the_file_with_its_data_and_one_cache(
    file: Path, tmp_path: Path
) -> None:
    """External data is looked for next to the link first and then next to its target, as for opening."""
    assert least_bytes(file) == RUNTIME_BYTES + file.stat().st_size + CACHE
    assert least_bytes(file.with_name("none.onnx")) is None
    store = tmp_path / "store"
    store.mkdir()
    real, link = store / "tiny.onnx", tmp_path / "tiny.onnx"
    real.write_bytes(file.read_bytes() + metadata_entry(contract.META_DATA_FILE, "tiny.onnx.data"))
    link.symlink_to(real)
    inside = real.stat().st_size + RUNTIME_BYTES + CACHE
    assert least_bytes(link) is None  # missing weights are reported when it is opened
    for folder, n in ((store, 1000), (tmp_path, 50)):
        (folder / "tiny.onnx.data").write_bytes(bytes(n))
        assert least_bytes(link) == inside + n
