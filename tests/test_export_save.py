"""An export leaves the old file or the new one, whole; large weights become external data."""

import errno
import hashlib
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import onnx
import pytest
from conftest import random_gpt

from edgegpt import contract
from edgegpt.config import ModelConfig
from edgegpt.errors import ArtifactError
from edgegpt.model import save_checkpoint
from edgegpt.runtime import open_artifact, read_metadata
from edgegpt.tokenizer import Tokenizer
from edgegpt_export import export as exporting, export_checkpoint, verify_file, write


@pytest.fixture
def external_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the weights of any model external data."""
    monkeypatch.setattr(contract, "EXTERNAL_DATA_BYTES", 1000)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*")}


def raising(error: BaseException) -> Any:
    def fail(*_args: Any, **_kwargs: Any) -> None:
        raise error

    return fail


INTERRUPTIONS = {
    "disk full while writing": (Path, "write_bytes", OSError(errno.ENOSPC, "No space left on device")),
    "disk full while writing metadata": (
        exporting,
        "append_metadata",
        OSError(errno.ENOSPC, "No space left on device"),
    ),
    "disk full while renaming": (Path, "replace", OSError(errno.ENOSPC, "No space left on device")),
    "interrupt while writing": (exporting, "write_model", KeyboardInterrupt()),
    "interrupt while verifying": (exporting, "verify", KeyboardInterrupt()),
    "interrupt while renaming": (Path, "replace", KeyboardInterrupt()),
}


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("what", INTERRUPTIONS)
def test_the_old_file_stays_whole(
    what: str, large: bool, checkpoint: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(contract, "EXTERNAL_DATA_BYTES", 1000)
    export_checkpoint(checkpoint, folder / "tiny.onnx")
    before = files(folder)
    where, name, error = INTERRUPTIONS[what]
    monkeypatch.setattr(where, name, raising(error))
    expected = ArtifactError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        export_checkpoint(checkpoint, folder / "tiny.onnx")
    if expected is ArtifactError:
        assert str(folder / "tiny.onnx") in str(caught.value)
        assert "No space left" in str(caught.value)
    assert files(folder) == before


def test_large_weights_become_external_data(checkpoint: Path, folder: Path, external_weights: None) -> None:
    report = export_checkpoint(checkpoint, folder / "tiny.onnx")
    content = files(folder)
    assert sorted(content) == ["tiny.onnx", "tiny.onnx.data"]
    digest = hashlib.sha256(content["tiny.onnx.data"]).hexdigest()
    assert read_metadata(report.path)["edgegpt.data_sha256"] == digest
    assert report.bytes == sum(len(value) for value in content.values())
    tensors = onnx.load(str(report.path), load_external_data=False).graph.initializer
    assert read_metadata(report.path)["edgegpt.data_file"] == "tiny.onnx.data"
    locations = {entry.value for t in tensors for entry in t.external_data if entry.key == "location"}
    assert locations == {"tiny.onnx.data"}
    assert verify_file(report.path, checkpoint).failures == []


def test_both_files_can_be_moved_together(
    checkpoint: Path, folder: Path, external_weights: None, tmp_path: Path
) -> None:
    export_checkpoint(checkpoint, folder / "tiny.onnx")
    moved = folder.rename(tmp_path / "robot")
    assert open_artifact(moved / "tiny.onnx").evidence


def test_missing_or_changed_data_is_named(
    checkpoint: Path, folder: Path, external_weights: None, refused: Any
) -> None:
    export_checkpoint(checkpoint, folder / "tiny.onnx")
    data = folder / "tiny.onnx.data"
    content = bytearray(data.read_bytes())
    content[4000] ^= 1
    data.write_bytes(content)
    with refused(ArtifactError, data):
        verify_file(folder / "tiny.onnx", checkpoint)
    data.unlink()
    with refused(ArtifactError, data):
        verify_file(folder / "tiny.onnx", checkpoint)


def test_any_changed_bit_of_the_file_is_noticed(checkpoint: Path, folder: Path, refused: Any) -> None:
    path = export_checkpoint(checkpoint, folder / "tiny.onnx").path
    content = path.read_bytes()
    digest = content.rindex(b"edgegpt.file_sha256")
    for at in [*range(0, digest - 4, len(content) // 60), *range(len(content) - 64, len(content), 7)]:
        path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        with pytest.raises(ArtifactError):
            open_artifact(path)
    path.write_bytes(content + content[digest - 4 :])
    with refused(ArtifactError, path):
        open_artifact(path)
    path.write_bytes(content)
    open_artifact(path)


def test_a_changed_weight_is_noticed_when_the_file_is_opened(
    checkpoint: Path, folder: Path, refused: Any
) -> None:
    path = export_checkpoint(checkpoint, folder / "tiny.onnx").path
    content = bytearray(path.read_bytes())
    weight = onnx.load(str(path)).graph.initializer[0].raw_data
    content[content.index(weight) + 5] ^= 1
    path.write_bytes(content)
    end = content.rindex(b"edgegpt.file_sha256") - 4
    with refused(ArtifactError, path, hashlib.sha256(content[:end]).hexdigest()[:12]):
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
    tiny_config: ModelConfig,
    tiny_tokenizer: Tokenizer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = folder / "tiny.onnx"
    monkeypatch.setattr(contract, "EXTERNAL_DATA_BYTES", 1000 if old_is_large else 10**9)
    export_checkpoint(checkpoint, out)
    before = files(folder)
    other = tmp_path / "other"
    save_checkpoint(other, random_gpt(tiny_config, seed=1), tiny_tokenizer)
    monkeypatch.setattr(contract, "EXTERNAL_DATA_BYTES", 1000)

    done, replace = [], Path.replace

    def interrupted(self, target: str) -> Any:
        if len(done) == renames:
            done.append("interrupt")
            raise KeyboardInterrupt
        done.append(target)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    needed = 3 if old_is_large else 2
    if renames >= needed:
        export_checkpoint(other, out)
        monkeypatch.undo()
        assert verify_file(out, other).failures == []
        return
    with pytest.raises(KeyboardInterrupt):
        export_checkpoint(other, out)
    assert files(folder) == before


def test_data_of_an_older_large_model_goes_with_it(
    checkpoint: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "EXTERNAL_DATA_BYTES", 1000)
    export_checkpoint(checkpoint, folder / "tiny.onnx")
    monkeypatch.setattr(contract, "EXTERNAL_DATA_BYTES", 10**9)
    export_checkpoint(checkpoint, folder / "tiny.onnx")
    assert list(files(folder)) == ["tiny.onnx"]


def test_a_failed_write_of_the_data_leaves_nothing(
    checkpoint: Path, folder: Path, external_weights: None, monkeypatch: pytest.MonkeyPatch, refused: Any
) -> None:
    monkeypatch.setattr(write, "_move_out", raising(OSError(errno.EDQUOT, "Disk quota exceeded")))
    with refused(ArtifactError, "quota"):
        export_checkpoint(checkpoint, folder / "tiny.onnx")
    assert files(folder) == {}
