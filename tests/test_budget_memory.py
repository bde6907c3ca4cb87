"""The memory that a file needs at least, found before it is loaded."""

from pathlib import Path

import pytest

from edgegpt import contract
from edgegpt.budget import check as check_module, memory
from edgegpt.budget.budget import Budget
from edgegpt.budget.check import check_file
from edgegpt.budget.memory import RUNTIME_BYTES, check_memory, least_bytes
from edgegpt.errors import MeasureError
from edgegpt.runtime.onnx_file import metadata_entry


def test_a_model_too_large_for_the_board_is_found_before_it_is_loaded(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the file was read")

    monkeypatch.setattr(check_module, "count_artifact", never)
    monkeypatch.setattr(check_module, "measure_process", never)
    path = tmp_path / "budget.yaml"
    board = "{description: a wristwatch, memory_mb: {value: 32, basis: published, source: its box}}"
    path.write_text(f"name: small\nload_ms: 1\nboard: {board}")
    with pytest.raises(MeasureError, match=r"needs at least 40 MB .* \(a wristwatch\) has 32 MB; 40 MB of"):
        check_file(file, Budget.from_yaml(path))
    monkeypatch.setattr(memory, "RUNTIME_BYTES", 0)
    path.write_text(path.read_text().replace("32", "1e-6"))
    with pytest.raises(MeasureError, match="export it at a lower precision"):
        check_file(file, Budget.from_yaml(path))


def test_a_model_too_large_for_what_is_free_here_is_found_too(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: 10_000_000)
    with pytest.raises(MeasureError, match="this machine has 10 MB free"):
        check_memory(file, None)
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: None)
    check_memory(file, None)  # a system that does not tell is not guessed at


def test_weights_beside_what_a_link_leads_to_count_and_those_beside_the_link_first(
    file: Path, tmp_path: Path
) -> None:
    """As where the file is opened."""
    store = tmp_path / "store"
    store.mkdir()
    real, link = store / "tiny.onnx", tmp_path / "tiny.onnx"
    entry = metadata_entry(contract.META_DATA_FILE, "tiny.onnx.data")
    real.write_bytes(file.read_bytes() + entry)
    link.symlink_to(real)
    inside = real.stat().st_size + RUNTIME_BYTES + 2 * 2 * 48 * 32 * 4
    assert least_bytes(link) is None  # whoever opens it says that its weights are missing
    (store / "tiny.onnx.data").write_bytes(bytes(1000))
    assert least_bytes(link) == inside + 1000
    (tmp_path / "tiny.onnx.data").write_bytes(bytes(50))
    assert least_bytes(link) == inside + 50


def test_the_least_memory_is_the_runtime_the_file_and_one_cache(file: Path) -> None:
    cache = 2 * 2 * 48 * 32 * 4  # keys and values of 2 layers, 48 positions, 32 wide, float32
    assert least_bytes(file) == RUNTIME_BYTES + file.stat().st_size + cache
    assert least_bytes(file.with_name("none.onnx")) is None
