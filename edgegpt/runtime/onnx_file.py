"""Read the metadata, checksum and size of an .onnx file without building a session.

A file of a newer format may hold operators that this onnxruntime cannot load, but its format version must
be readable. So the outermost protobuf message is walked by hand, past the weights.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final

from edgegpt import contract
from edgegpt.accounting import parameter_count
from edgegpt.config import ModelConfig
from edgegpt.quantization import read_recipe, weight_bytes_per_token

# Fields of onnx.proto: ModelProto.graph and .metadata_props, StringStringEntryProto.key and .value.
_GRAPH: Final = 7
_METADATA_PROPS: Final = 14
_KEY: Final = 1
_VALUE: Final = 2
# Wire types of protobuf, https://protobuf.dev/programming-guides/encoding/
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_BLOCK: Final = 1 << 20
_SMALL: Final = 4 << 20


def read_metadata(path: Path) -> dict[str, str]:
    """Return the metadata_props of an ONNX file.

    Raises:
        ValueError: the file is not a whole ONNX model.
        OSError: the file cannot be read.
    """
    metadata: dict[str, str] = {}
    has_graph = False
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while file.tell() < size:
            field, wire, length = _next_field(file)
            end = file.tell() + length
            if end > size:
                raise ValueError(f"it ends after {size} bytes, in the middle of a field of {length}")
            if field == _METADATA_PROPS and wire == _BYTES:
                entry = _entry(file, end)
                metadata[entry.get(_KEY, "")] = entry.get(_VALUE, "")
            has_graph |= field == _GRAPH and wire == _BYTES
            file.seek(end)
    if not has_graph:
        raise ValueError("it holds no graph")
    return metadata


def linked_file(path: Path, data_name: str) -> Path:
    """Return `path`, or the file that it links to where only that one has its weights in the same folder."""
    return path if path.with_name(data_name).is_file() else path.resolve()


def file_bytes(path: Path, metadata: Mapping[str, str]) -> int:
    """Return the bytes of an .onnx file and of its external data; raises OSError."""
    size = path.stat().st_size
    if name := metadata.get(contract.META_DATA_FILE):
        size += linked_file(path, name).with_name(name).stat().st_size
    return size


def metadata_entry(key: str, value: str) -> bytes:
    """Return one entry of metadata_props in the bytes of a file."""
    entry = _bytes_field(_KEY, key.encode()) + _bytes_field(_VALUE, value.encode())
    return _bytes_field(_METADATA_PROPS, entry)


def file_sha256(path: Path, length: int | None = None) -> str:
    """Return the sha256 of a file's first `length` bytes, or of all, in hexadecimal; raises OSError."""
    left = path.stat().st_size if length is None else length
    digest = _sha256(left)
    with path.open("rb") as file:
        while left > 0 and (block := file.read(min(left, _BLOCK))):
            digest.update(block)
            left -= len(block)
    result: str = digest.hexdigest()
    return result


def _sha256(n_bytes: int) -> Any:
    """Return a new sha256 object to hash n bytes.

    hashlib loads OpenSSL, which takes 4 MB and 3 ms and saves 5 ms a megabyte. So a small file is hashed
    by the C module of Python itself, as `random` does it; a Python may be built without that.
    """
    names = ("_sha2", "_sha256") if n_bytes <= _SMALL else ()  # from Python 3.12 on, and before
    for name in names:
        with suppress(ImportError):
            return import_module(name).sha256()
    return import_module("hashlib").sha256()


def _bytes_field(number: int, content: bytes) -> bytes:
    length, varint = len(content), bytearray()
    while length > 0x7F:
        varint.append(length & 0x7F | 0x80)
        length >>= 7
    varint.append(length)
    return bytes([number << 3 | _BYTES]) + bytes(varint) + content


def _entry(file: BinaryIO, end: int) -> dict[int, str]:
    fields: dict[int, str] = {}
    while file.tell() < end:
        field, wire, length = _next_field(file)
        if wire != _BYTES or file.tell() + length > end:
            raise ValueError("its metadata is damaged")
        fields[field] = file.read(length).decode("utf-8")  # UnicodeDecodeError is a ValueError
    return fields


def _next_field(file: BinaryIO) -> tuple[int, int, int]:
    """Return field number, wire type and the bytes that follow; a varint is read and leaves 0."""
    tag = _varint(file)
    field, wire = tag >> 3, tag & 7
    if field == 0:
        raise ValueError("it is not an ONNX model")
    if wire == _VARINT:
        _varint(file)
        return field, wire, 0
    if wire == _BYTES:
        return field, wire, _varint(file)
    if wire in (_FIXED64, _FIXED32):
        return field, wire, 8 if wire == _FIXED64 else 4
    raise ValueError("it is not an ONNX model")


def _varint(file: BinaryIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            raise ValueError("it ends in the middle of a number")
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    raise ValueError("it is not an ONNX model")


@dataclass(frozen=True)
class File:
    """Facts of a model file.

    Attributes:
        path: the .onnx file.
        target: `engine` or `portable`.
        precision: precision of the weights, `fp32`, `int8`, `int4` or `auto`.
        parameters: number of the model's parameters.
        bytes: size of the file and of its external data.
        context: block_size, in tokens.
        weight_bytes_per_token: bytes of weights that a decode step reads.
    """

    path: str
    target: str
    precision: str
    parameters: int
    bytes: int
    context: int
    weight_bytes_per_token: int


def read_file(path: str | Path) -> File:
    """Return the facts of a valid file, one that `open_artifact` or `summarize_artifact` accepted.

    Raises:
        ArtifactError: its recipe does not name the matrices of its model.
    """
    path = Path(path)
    metadata = read_metadata(path)
    config = ModelConfig.parse(metadata[contract.META_CONFIG], str(path))
    bits = read_recipe(json.loads(metadata.get(contract.META_RECIPE, "{}")), config, path)
    return File(
        path=str(path),
        target=metadata[contract.META_TARGET],
        precision=metadata[contract.META_PRECISION],
        parameters=parameter_count(config),
        bytes=file_bytes(path, metadata),
        context=config.block_size,
        weight_bytes_per_token=weight_bytes_per_token(config, bits),
    )
