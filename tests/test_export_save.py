"""An export leaves the old file or the new one, whole, whatever happens; large weights lie beside it."""

import errno
import hashlib
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import onnx
import pytest
from conftest import random_gpt

from edgegpt import contract
from edgegpt.errors import (
    ArtifactError,
)
from edgegpt.model.checkpoint import save_checkpoint
from edgegpt.runtime.artifact import open_artifact
from edgegpt.runtime.onnx_file import read_metadata
from edgegpt_export import export as exporting, export_checkpoint, verify_file, write


@pytest.fixture
def weights_beside(monkeypatch):
    """Move the weights of any model out of the .onnx."""
    monkeypatch.setattr(contract, "EXTERNAL_DATA_BYTES", 1000)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*")}


def raising(error: BaseException):
    def fail(*_args, **_kwargs):
        raise error

    return fail


INTERRUPTIONS = {
    "disk full while writing": (Path, "write_bytes", OSError(errno.ENOSPC, "No space left on device")),
    "disk full while stamping": (
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
def test_the_old_file_stays_whole(what, large, checkpoint, folder, monkeypatch):
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
        assert str(caught.value) == f"{folder / 'tiny.onnx'} cannot be written: No space left on device"
    assert files(folder) == before


def test_large_weights_lie_beside_the_file(checkpoint, folder, weights_beside):
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


def test_both_files_can_be_moved_together(checkpoint, folder, weights_beside, tmp_path):
    export_checkpoint(checkpoint, folder / "tiny.onnx")
    moved = folder.rename(tmp_path / "robot")
    assert open_artifact(moved / "tiny.onnx").evidence


def test_missing_or_changed_data_is_named(checkpoint, folder, weights_beside):
    export_checkpoint(checkpoint, folder / "tiny.onnx")
    data = folder / "tiny.onnx.data"
    content = bytearray(data.read_bytes())
    content[4000] ^= 1
    data.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"tiny.onnx.data does not belong to tiny.onnx or is damaged"):
        verify_file(folder / "tiny.onnx", checkpoint)
    data.unlink()
    with pytest.raises(ArtifactError, match=r"tiny.onnx.data is missing"):
        verify_file(folder / "tiny.onnx", checkpoint)


def test_any_changed_bit_of_the_file_is_noticed(checkpoint, folder):
    path = export_checkpoint(checkpoint, folder / "tiny.onnx").path
    content = path.read_bytes()
    seal = content.rindex(b"edgegpt.file_sha256")
    for at in [*range(0, seal - 4, len(content) // 60), *range(len(content) - 64, len(content), 7)]:
        path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        with pytest.raises(ArtifactError):
            open_artifact(path)
    path.write_bytes(content + content[seal - 4 :])
    with pytest.raises(ArtifactError, match="is damaged or was changed after its export"):
        open_artifact(path)
    path.write_bytes(content)
    open_artifact(path)


def test_a_changed_weight_is_noticed_when_the_file_is_opened(checkpoint, folder):
    path = export_checkpoint(checkpoint, folder / "tiny.onnx").path
    content = bytearray(path.read_bytes())
    weight = onnx.load(str(path)).graph.initializer[0].raw_data
    content[content.index(weight) + 5] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArtifactError) as error:
        open_artifact(path)
    assert re.fullmatch(
        rf"{path} is damaged or was changed after its export: its sha256 begins \w{{12}}, expected \w{{12}}; "
        r"copy it again or export it again",
        str(error.value),
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_polite_kill_leaves_nothing_behind(number, checkpoint, folder, monkeypatch):
    before = signal.signal(number, signal.SIG_DFL)  # it may be ignored here, as under nohup
    monkeypatch.setattr(exporting, "verify", lambda *_: signal.raise_signal(number))
    try:
        with pytest.raises(KeyboardInterrupt):
            export_checkpoint(checkpoint, folder / "tiny.onnx")
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert files(folder) == {}


def test_a_program_that_handles_its_own_signals_keeps_them(checkpoint, folder, monkeypatch):
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("TERM"))
    real = exporting.verify
    monkeypatch.setattr(exporting, "verify", lambda *a: (signal.raise_signal(signal.SIGTERM), real(*a))[1])
    try:
        export_checkpoint(checkpoint, folder / "tiny.onnx")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == ["TERM"]


def test_an_export_runs_in_any_thread(checkpoint, folder):
    with ThreadPoolExecutor() as pool:
        assert pool.submit(export_checkpoint, checkpoint, folder / "tiny.onnx").result().path.exists()


@pytest.mark.parametrize("renames", [0, 1, 2, 3])
@pytest.mark.parametrize("old_is_large", [False, True])
def test_an_interrupt_between_the_renames_leaves_one_whole_model(
    renames, old_is_large, checkpoint, folder, tiny_config, tiny_tokenizer, tmp_path, monkeypatch
):
    out = folder / "tiny.onnx"
    monkeypatch.setattr(contract, "EXTERNAL_DATA_BYTES", 1000 if old_is_large else 10**9)
    export_checkpoint(checkpoint, out)
    before = files(folder)
    other = tmp_path / "other"
    save_checkpoint(other, random_gpt(tiny_config, seed=1), tiny_tokenizer)
    monkeypatch.setattr(contract, "EXTERNAL_DATA_BYTES", 1000)

    done, replace = [], Path.replace

    def interrupted(self, target):
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


def test_data_of_an_older_large_model_goes_with_it(checkpoint, folder, monkeypatch):
    monkeypatch.setattr(contract, "EXTERNAL_DATA_BYTES", 1000)
    export_checkpoint(checkpoint, folder / "tiny.onnx")
    monkeypatch.setattr(contract, "EXTERNAL_DATA_BYTES", 10**9)
    export_checkpoint(checkpoint, folder / "tiny.onnx")
    assert list(files(folder)) == ["tiny.onnx"]


def test_a_failed_write_of_the_data_leaves_nothing(checkpoint, folder, weights_beside, monkeypatch):
    monkeypatch.setattr(write, "_move_out", raising(OSError(errno.EDQUOT, "Disk quota exceeded")))
    with pytest.raises(ArtifactError, match="Disk quota exceeded"):
        export_checkpoint(checkpoint, folder / "tiny.onnx")
    assert files(folder) == {}
