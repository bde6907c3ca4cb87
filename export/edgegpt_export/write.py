"""Write an .onnx file, its external data and its metadata, whole or not at all.

Both files are made in a hidden folder next to the target and renamed into place, the data first and
the .onnx last: the rename of the .onnx completes the change. An exception before it, KeyboardInterrupt
included, restores the old data. Two renames are not atomic: if the machine stops between them, the old
.onnx has no data or new data next to it. Opening it then fails, since the sha256 in its metadata does
not match, and the old data is still in the hidden folder.

Metadata are metadata_props under `edgegpt.*` keys.
"""

import hashlib
import json
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import onnx
import onnxruntime
from onnx import ModelProto, TensorProto

from edgegpt import __version__, contract
from edgegpt.runtime import file_sha256, metadata_entry
from edgegpt_export.bit_allocation import Quantisation

if TYPE_CHECKING:
    from edgegpt.model import Checkpoint

_ALIGNMENT: Final = 4096  # a tensor begins on a new page, so that it can be mapped
# Signals that end a process without an exception; Windows has no SIGHUP.
_ENDING: Final = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_SMALL: Final = 1024  # bytes; constants stay in the .onnx, where onnxruntime can read shapes from them


@contextmanager
def staged(path: Path) -> Iterator[Path]:
    """Yield a path to write, with its `data_path`; both get their final names when the block succeeds.

    On any exception, and on SIGTERM or SIGHUP, the new files are deleted and an older `path` and its
    data stay as they were.
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


def append_metadata(path: Path, entries: Mapping[str, str]) -> None:
    """Append entries to a file, whose bytes so far stay as they are.

    Two concatenated protobuf messages are one message with the entries of both, so the
    verified bytes are not written again.
    """
    addition = ModelProto()
    add_metadata(addition, entries)
    with path.open("ab") as file:
        file.write(addition.SerializeToString(deterministic=True))


def write_digest(path: Path) -> None:
    """Append the sha256 of the file so far, which is checked when it is opened; nothing may follow."""
    entry = metadata_entry(contract.META_FILE_SHA256, file_sha256(path))
    with path.open("ab") as file:
        file.write(entry)


def metadata(
    checkpoint: "Checkpoint", target: str, quantisation: Quantisation, sampling: Mapping[str, Any]
) -> dict[str, str]:
    """Return all entries known before verification; none depends on the time or the machine."""
    return {
        contract.META_FORMAT_VERSION: str(contract.FORMAT_VERSION),
        contract.META_TARGET: target,
        contract.META_CONFIG: checkpoint.config.to_json(),
        contract.META_TOKENIZER: checkpoint.tokenizer.to_json(),
        contract.META_PRECISION: quantisation.precision,
        contract.META_RECIPE: quantisation.to_json(),
        contract.META_KV_CACHE: quantisation.kv_cache,
        contract.META_WEIGHTS_SHA256: checkpoint.weights_sha256,
        contract.META_SAMPLING: json.dumps(sampling),
        contract.META_TOOL: tool(),
    }


def tool() -> str:
    """Return the names and versions of the software that makes the file."""
    import torch  # here, because `synthetic` writes files without it

    return (
        f"edgegpt {__version__}, torch {torch.__version__}, "
        f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}"
    )


def add_metadata(model: ModelProto, entries: Mapping[str, str]) -> None:
    """Append entries to a model in memory."""
    for key, value in entries.items():
        model.metadata_props.add(key=key, value=value)


def data_path(path: Path) -> Path:
    """Return the path of the external data of `path`."""
    return path.with_name(f"{path.name}.data")


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt, as SIGINT does, unless they have a handler.

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


def _rename_both(temporary: Path, path: Path) -> None:
    new_data, data = data_path(temporary), data_path(path)
    old_data = temporary.with_name("old.data")  # deleted with the folder after success
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
        if temporary.exists():  # not renamed: the old .onnx is still in place
            if had_new_data and not new_data.exists():
                data.unlink()
            if old_data.exists():
                old_data.replace(data)
        raise


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _move_out(tensors: list[TensorProto], path: Path) -> str:
    """Write the tensors' bytes to `path` and make them refer to it; return the file's sha256."""
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
