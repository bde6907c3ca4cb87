"""An export leaves the old file or the new one, whole; large weights become external data."""

import errno
import hashlib
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import onnx
import pytest
from conftest import Refused, random_gpt

from edgegpt import contract
from edgegpt.config import ModelConfig
from edgegpt.errors import ArtifactError
from edgegpt.model import save_checkpoint
from edgegpt.runtime import open_artifact, read_metadata
from edgegpt.tokenizer import Tokenizer
from edgegpt_export import export as exporting, export_checkpoint, verify_file, write


@pytest.fixture
def external(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Choose whether the weights of the next exports become external data."""
    return lambda large: monkeypatch.setattr(contract, "EXTERNAL_DATA_BYTES", 1000 if large else 10**9)


@pytest.fixture
def large_file(checkpoint: Path, folder: Path, external: Callable[[bool], None]) -> Path:
    """The tiny model with external data."""
    external(True)
    return export_checkpoint(checkpoint, folder / "tiny.onnx").path


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*")}


FULL = OSError(errno.ENOSPC, "No space left on device")
INTERRUPTIONS: dict[str, tuple[object, str, BaseException]] = {
    "disk full while writing": (Path, "write_bytes", FULL),
    "disk full while appending the evidence": (exporting, "append_metadata", FULL),
    "disk full while renaming": (Path, "replace", FULL),
    "disk full while writing data": (write, "_move_out", FULL),
    "interrupt while writing": (exporting, "write_model", KeyboardInterrupt()),
    "interrupt while verifying": (exporting, "verify", KeyboardInterrupt()),
    "interrupt while renaming": (Path, "replace", KeyboardInterrupt()),
}


@pytest.mark.parametrize(
    ("what", "large"),
    [(what, large) for what in INTERRUPTIONS for large in (True, False) if large or "data" not in what],
)
def test_the_old_file_stays_whole(
    what: str,
    large: bool,
    checkpoint: Path,
    folder: Path,
    external: Callable[[bool], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    external(large)
    export_checkpoint(checkpoint, folder / "tiny.onnx")
    before = files(folder)
    where, name, error = INTERRUPTIONS[what]
    monkeypatch.setattr(where, name, Mock(side_effect=error))
    with pytest.raises(ArtifactError if error is FULL else KeyboardInterrupt) as caught:
        export_checkpoint(checkpoint, folder / "tiny.onnx")
    if error is FULL:
        assert str(folder / "tiny.onnx") in str(caught.value)
        assert "No space left" in str(caught.value)
    assert files(folder) == before


def test_large_weights_become_external_data(checkpoint: Path, large_file: Path) -> None:
    content, metadata = files(large_file.parent), read_metadata(large_file)
    assert sorted(content) == ["tiny.onnx", "tiny.onnx.data"]
    assert metadata["edgegpt.data_sha256"] == hashlib.sha256(content["tiny.onnx.data"]).hexdigest()
    assert metadata["edgegpt.data_file"] == "tiny.onnx.data"
    assert open_artifact(large_file).bytes == sum(len(value) for value in content.values())
    tensors = onnx.load(str(large_file), load_external_data=False).graph.initializer
    locations = {entry.value for t in tensors for entry in t.external_data if entry.key == "location"}
    assert locations == {"tiny.onnx.data"}
    assert verify_file(large_file, checkpoint).failures == []


def test_any_changed_bit_of_the_file_is_noticed(checkpoint: Path, folder: Path, refused: Refused) -> None:
    path = export_checkpoint(checkpoint, folder / "tiny.onnx").path
    content = path.read_bytes()
    weight = content.index(onnx.load(str(path)).graph.initializer[0].raw_data) + 5
    digest = content.rindex(b"edgegpt.file_sha256")
    places = [weight, *range(0, digest - 4, len(content) // 60), *range(len(content) - 64, len(content), 7)]
    for at in places:
        path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        with refused(ArtifactError):
            open_artifact(path)
    path.write_bytes(content + content[digest - 4 :])
    with refused(ArtifactError, path):
        open_artifact(path)
    path.write_bytes(content)
    open_artifact(path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_polite_kill_leaves_nothing_behind(
    number: int, checkpoint: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.signal(number, signal.SIG_DFL)  # it may be ignored here, as under nohup
    monkeypatch.setattr(exporting, "verify", lambda *_: signal.raise_signal(number))
    try:
        with pytest.raises(KeyboardInterrupt):
            export_checkpoint(checkpoint, folder / "tiny.onnx")
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert files(folder) == {}


def test_a_program_that_handles_its_own_signals_keeps_them(
    checkpoint: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("TERM"))
    real = exporting.verify
    monkeypatch.setattr(exporting, "verify", lambda *a: (signal.raise_signal(signal.SIGTERM), real(*a))[1])
    try:
        export_checkpoint(checkpoint, folder / "tiny.onnx")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == ["TERM"]


def test_an_export_runs_in_any_thread(checkpoint: Path, folder: Path) -> None:
    with ThreadPoolExecutor() as pool:
        assert pool.submit(export_checkpoint, checkpoint, folder / "tiny.onnx").result().path.exists()


@pytest.mark.parametrize("renames", [0, 1, 2, 3])
@pytest.mark.parametrize("old_is_large", [False, True])
def test_an_interrupt_between_the_renames_leaves_one_whole_model(
    renames: int,
    old_is_large: bool,
    checkpoint: Path,
    folder: Path,
    external: Callable[[bool], None],
    tiny_config: ModelConfig,
    tiny_tokenizer: Tokenizer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, other = folder / "tiny.onnx", tmp_path / "other"
    external(old_is_large)
    export_checkpoint(checkpoint, out)
    before = files(folder)
    save_checkpoint(other, random_gpt(tiny_config, seed=1), tiny_tokenizer)
    external(True)
    done, replace = 0, Path.replace

    def interrupted(self: Path, target: Path) -> Any:
        nonlocal done
        done += 1
        if done == renames + 1:
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    if renames >= (3 if old_is_large else 2):
        export_checkpoint(other, out)
        monkeypatch.undo()
        assert verify_file(out, other).failures == []
    else:
        with pytest.raises(KeyboardInterrupt):
            export_checkpoint(other, out)
        assert files(folder) == before


def test_data_of_an_older_large_model_goes_with_it(
    checkpoint: Path, large_file: Path, external: Callable[[bool], None]
) -> None:
    external(False)
    export_checkpoint(checkpoint, large_file)
    assert list(files(large_file.parent)) == ["tiny.onnx"]
