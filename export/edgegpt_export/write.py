"""Write an .onnx file, and the weights beside it when they are large, whole or not at all.

Both files are made in a hidden folder beside the target and renamed into place, the data first and
the .onnx last: the .onnx with its new name is the moment of the change. An exception before that
moment, KeyboardInterrupt included, puts the old data back. Two renames cannot be one: should the
machine stop between them, the old .onnx finds no data or new data beside it, which whoever opens it
is told by the sha256 in its metadata, and its old data is still in the hidden folder.
"""

import hashlib
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from onnx import ModelProto, TensorProto

from edgegpt import contract
from edgegpt_export.stamp import add_metadata

_ALIGNMENT: Final = 4096  # a tensor begins on a page of its own, so that it can be mapped
# Requests to end that would end the process at once; Windows has no SIGHUP.
_ENDING: Final = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_SMALL: Final = 1024  # bytes; constants stay in the .onnx, where onnxruntime can read shapes from them


def data_path(path: Path) -> Path:
    """Where the weights of `path` are when they are not inside."""
    return path.with_name(f"{path.name}.data")


@contextmanager
def staged(path: Path) -> Iterator[Path]:
    """Give a path to write, with `data_path` of it too; both take their final names when the block succeeds.

    On any exception what was written goes and an older `path` and its data stay as they were; so they
    do when the process is asked to end.
    """
    with _signals_raise():
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
        try:
            temporary = folder / path.name
            yield temporary
            _rename_both(temporary, path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def write_model(model: ModelProto, path: Path) -> None:
    """Write a model, and its weights to `data_path(path)` when they exceed contract.EXTERNAL_DATA_BYTES.

    In that case the tensors are moved out of `model`, which then refers to the data file, and
    the name and the sha256 of that file join the metadata.
    """
    tensors = [tensor for tensor in model.graph.initializer if len(tensor.raw_data) >= _SMALL]
    if sum(len(tensor.raw_data) for tensor in tensors) > contract.EXTERNAL_DATA_BYTES:
        digest = _move_out(tensors, data_path(path))
        add_metadata(
            model, {contract.META_DATA_FILE: data_path(path).name, contract.META_DATA_SHA256: digest}
        )
    path.write_bytes(model.SerializeToString(deterministic=True))


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt, as SIGINT does, where they would just kill.

    Outside the main thread, where Python handles no signals, nothing changes.
    """
    deadly = []
    if threading.current_thread() is threading.main_thread():
        deadly = [number for number in _ENDING if signal.getsignal(number) == signal.SIG_DFL]
    for number in deadly:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in deadly:
            signal.signal(number, signal.SIG_DFL)


def _move_out(tensors: list[TensorProto], path: Path) -> str:
    """Write the tensors' bytes to `path` and let them refer to it; returns the file's sha256."""
    digest = hashlib.sha256()
    offset = 0
    with path.open("wb") as file:
        for tensor in tensors:
            padding = b"\0" * (-offset % _ALIGNMENT)
            for part in (padding, tensor.raw_data):
                file.write(part)
                digest.update(part)
            offset += len(padding)
            length = len(tensor.raw_data)
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", path.name), ("offset", str(offset)), ("length", str(length))):
                tensor.external_data.add(key=key, value=value)
            offset += length
    return digest.hexdigest()


def _rename_both(temporary: Path, path: Path) -> None:
    new_data, data = data_path(temporary), data_path(path)
    old_data = temporary.with_name("old.data")  # goes with the folder when all went well
    _flush(temporary)
    had_new_data = new_data.exists()
    if had_new_data:
        _flush(new_data)
    try:
        if data.exists():
            data.replace(old_data)
        if had_new_data:
            new_data.replace(data)
        temporary.replace(path)
    except BaseException:
        if temporary.exists():  # not renamed: the old .onnx is the one in force
            if had_new_data and not new_data.exists():
                data.unlink()
            if old_data.exists():
                old_data.replace(data)
        raise


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
