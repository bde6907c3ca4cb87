"""Open and validate one exported .onnx file: metadata, tokenizer, sessions, graph."""

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import onnxruntime as ort

from edgegpt import contract
from edgegpt.config import ModelConfig
from edgegpt.errors import (
    ArtifactError,
    ConfigError,
    SamplingError,
    TokenizerError,
    first_line,
    whole_number,
)
from edgegpt.quantization import AUTO, PRECISIONS
from edgegpt.runtime import ort_backend
from edgegpt.runtime.onnx_file import file_bytes, file_sha256, linked_file, metadata_entry, read_metadata
from edgegpt.runtime.sampling import SamplingParams
from edgegpt.runtime.tuning import Tuning, find as find_tuning
from edgegpt.tokenizer import Tokenizer


@dataclass(frozen=True)
class Artifact:
    """An open model file.

    Attributes:
        path: the .onnx file.
        config: the model's shape.
        tokenizer: the model's own; it may have fewer tokens than config.vocab_size.
        target: `engine` or `portable`.
        precision: precision of the weights, `fp32`, `int8`, `int4` or `auto`.
        kv_cache: type of the numbers in the cache, `fp32` or `int8`.
        recipe: how the weights were quantised; empty for fp32.
        weights_sha256: sha256 of the checkpoint's model.safetensors.
        evidence: results of the export's verification.
        sampling: the file's sampling defaults.
        tool: name and versions of the exporter.
        bytes: size of the file and of its external data.
        tuning: threads, spinning and prompt chunk of the sessions.
        session: the onnxruntime session.
        prefill_session: second session, for prompts; None if `session` runs both.
    """

    path: Path
    config: ModelConfig
    tokenizer: Tokenizer
    target: str
    precision: str
    kv_cache: str
    recipe: dict[str, Any]
    weights_sha256: str
    evidence: dict[str, Any]
    sampling: SamplingParams
    tool: str
    bytes: int
    tuning: Tuning
    session: ort.InferenceSession
    prefill_session: ort.InferenceSession | None


def open_artifact(path: str | Path, *, threads: int | Tuning | None = 1) -> Artifact:
    """Open a file made by `edgegpt export`, on the CPU.

    Args:
        path: the file.
        threads: number of threads (waiting ones sleep), or a Tuning; None is the stored result of
            `edgegpt tune` for this file on this machine, or one thread without one.

    Raises:
        ArtifactError: threads is outside its range, or the file is missing, damaged, of another tool or
            format version, or its parts disagree.
    """
    if threads is not None and not isinstance(threads, Tuning):
        threads = whole_number(
            "threads", threads, ArtifactError, least=1, most=max(256, 4 * (os.cpu_count() or 1))
        )
    path = _path(path)
    metadata = _metadata(path)
    config, tokenizer, sampling = _parts(path, metadata)
    file = _check_data(path, metadata)
    chosen = _tuning(path, metadata, threads)
    session = _session(path, file, chosen.decode_threads, spinning=chosen.spinning)
    apart = chosen.prefill_threads != chosen.decode_threads
    target, kv_cache = metadata[contract.META_TARGET], metadata[contract.META_KV_CACHE]
    check_graph(path, session, config, target, kv_cache)
    return Artifact(
        path=path,
        config=config,
        tokenizer=tokenizer,
        target=target,
        precision=metadata[contract.META_PRECISION],
        kv_cache=kv_cache,
        recipe=_mapping(path, metadata, contract.META_RECIPE),
        weights_sha256=metadata.get(contract.META_WEIGHTS_SHA256, ""),
        evidence=_mapping(path, metadata, contract.META_EVIDENCE),
        sampling=sampling,
        tool=metadata.get(contract.META_TOOL, ""),
        bytes=file_bytes(path, metadata),
        tuning=chosen,
        session=session,
        prefill_session=(
            _session(path, file, chosen.prefill_threads, spinning=chosen.spinning) if apart else None
        ),
    )


class ArtifactSummary(NamedTuple):
    """Content of a file, read without a session.

    Attributes:
        config: the model's shape.
        tokenizer: the model's own.
        kv_cache: type of the numbers in the cache, `fp32` or `int8`.
        bytes: size of the file and of its external data.
    """

    config: ModelConfig
    tokenizer: Tokenizer
    kv_cache: str
    bytes: int


def summarize_artifact(path: str | Path) -> ArtifactSummary:
    """Validate a file and return its content, without building a session.

    The graph is not checked. Takes milliseconds where `open_artifact` loads the weights.

    Raises:
        ArtifactError: as `open_artifact`.
    """
    path = _path(path)
    metadata = _metadata(path)
    config, tokenizer, _ = _parts(path, metadata)
    _check_data(path, metadata)
    return ArtifactSummary(config, tokenizer, metadata[contract.META_KV_CACHE], file_bytes(path, metadata))


def file_identity(path: str | Path) -> str:
    """Return the sha256, in hexadecimal, under which the tuning of a file is stored.

    It is the digest that the exporter wrote into the file, which covers the external data too; of a file
    without one, the sha256 of the .onnx file.

    Raises:
        ArtifactError: as `open_artifact`.
    """
    path = _path(path)
    return _identity(path, _metadata(path))


def _identity(path: Path, metadata: dict[str, str]) -> str:
    if digest := metadata.get(contract.META_FILE_SHA256):
        return digest
    with _reading(path):
        return file_sha256(path)


def _tuning(path: Path, metadata: dict[str, str], threads: int | Tuning | None) -> Tuning:
    if isinstance(threads, Tuning):
        return threads
    if threads is None:
        return find_tuning(_identity(path, metadata)) or Tuning.of_threads(1)
    return Tuning.of_threads(threads)


def _path(path: str | Path) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise ArtifactError(f"the path of the model file must be a string or a Path, got {path!r}")
    if not str(path):
        raise ArtifactError(
            "the path of the model file is empty; expected an .onnx file made by `edgegpt export`"
        )
    return Path(path)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as e:
        raise ArtifactError(f"{path} does not exist; expected an .onnx file made by `edgegpt export`") from e
    except OSError as e:
        raise ArtifactError(f"{path} cannot be read: {e.strerror or e}") from e


def _metadata(path: Path) -> dict[str, str]:
    ort_backend.check_file_name(path)
    with _reading(path):
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if path.is_dir() else "not a file"
            raise ArtifactError(f"{path} is {kind}; expected an .onnx file made by `edgegpt export`")
        try:
            if not status.st_size:
                raise ValueError("it is empty")
            metadata = read_metadata(path)
        except ValueError as e:
            raise ArtifactError(
                f"{path} is not a whole ONNX file: {e}; copy it again or export it again"
            ) from e
    version = metadata.get(contract.META_FORMAT_VERSION)
    if version is None:
        raise ArtifactError(
            f"{path} is an ONNX file of another tool; export your checkpoint with `edgegpt export`"
        )
    if version != str(contract.FORMAT_VERSION):
        raise ArtifactError(
            f"{path} has format version {version}, this edgegpt reads {contract.FORMAT_VERSION}; "
            "export it again with this edgegpt, or install the one that made it"
        )
    _check_digest(path, metadata)
    keys = (
        contract.META_TARGET,
        contract.META_CONFIG,
        contract.META_TOKENIZER,
        contract.META_PRECISION,
        contract.META_KV_CACHE,
    )
    if missing := [key for key in keys if key not in metadata]:
        raise ArtifactError(f"{path} lacks the metadata {', '.join(missing)}; export it again")
    target = metadata[contract.META_TARGET]
    if target not in (contract.ENGINE, contract.PORTABLE):
        raise ArtifactError(f"{path} has the target {target!r}, expected engine or portable")
    if (precision := metadata[contract.META_PRECISION]) not in (*PRECISIONS, AUTO):
        expected = ", ".join((*PRECISIONS, AUTO))
        raise ArtifactError(f"{path} has weights of {precision!r}, expected {expected}")
    if (kv_cache := metadata[contract.META_KV_CACHE]) not in contract.KV_CACHES:
        raise ArtifactError(f"{path} has a cache of {kv_cache!r}, expected {' or '.join(contract.KV_CACHES)}")
    return metadata


def _check_digest(path: Path, metadata: dict[str, str]) -> None:
    """Compare the file with the sha256 in its last entry, which the exporter wrote."""
    expected = metadata.get(contract.META_FILE_SHA256)
    if expected is None:  # made by the builder alone, without the export's verification
        return
    with _reading(path):
        size = path.stat().st_size - len(metadata_entry(contract.META_FILE_SHA256, expected))
        found = file_sha256(path, size)
    if found != expected:
        raise ArtifactError(
            f"{path} is damaged or was changed after its export: its sha256 begins {found[:12]}, "
            f"expected {expected[:12]}; copy it again or export it again"
        )


def _parts(path: Path, metadata: dict[str, str]) -> tuple[ModelConfig, Tokenizer, SamplingParams]:
    try:
        config = ModelConfig.parse(metadata[contract.META_CONFIG], f"the config in {path}")
        tokenizer = Tokenizer.from_json(metadata[contract.META_TOKENIZER], f"the tokenizer in {path}")
    except (ConfigError, TokenizerError) as e:
        raise ArtifactError(str(e)) from e
    if tokenizer.vocab_size > config.vocab_size:
        raise ArtifactError(
            f"the tokenizer in {path} has {tokenizer.vocab_size} tokens but the model only "
            f"vocab_size {config.vocab_size}; export it with its own tokenizer"
        )
    try:
        sampling = SamplingParams(**_mapping(path, metadata, contract.META_SAMPLING))
    except (SamplingError, TypeError) as e:
        raise ArtifactError(f"the sampling defaults in {path} are not valid: {e}") from e
    return config, tokenizer, sampling


def _mapping(path: Path, metadata: dict[str, str], key: str) -> dict[str, Any]:
    """Return the JSON object under `key`, empty if the file has none."""
    text = metadata.get(key, "{}")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise ArtifactError(f"the metadata {key} in {path} is not JSON: {e}") from e
    if not isinstance(value, dict):
        raise ArtifactError(f"the metadata {key} in {path} must be a JSON object, got {text[:40]!r}")
    return value


def _check_data(path: Path, metadata: dict[str, str]) -> Path:
    """Check the external data, if there is any.

    Returns:
        the file to load: `path`, or the target of that link if the data is next to the target.
    """
    expected = metadata.get(contract.META_DATA_SHA256)
    if expected is None:
        return path
    name = metadata.get(contract.META_DATA_FILE, "")
    if not name or Path(name).name != name:
        raise ArtifactError(
            f"the metadata {contract.META_DATA_FILE} in {path} must name the file of its weights, "
            f"got {name[:40]!r}; export it again"
        )
    file = linked_file(path, name)
    data = file.with_name(name)
    if not data.is_file():
        if name != f"{file.name}.data":
            raise ArtifactError(
                f"{path} was renamed; its weights must be in the same folder under the name {name}"
            )
        raise ArtifactError(
            f"{data} is missing; it holds the weights of {path.name} and must be in the same folder"
        )
    with _reading(data):
        found = file_sha256(data)
    if found != expected:
        raise ArtifactError(
            f"{data} does not belong to {path.name} or is damaged: its sha256 begins "
            f"{found[:12]}, expected {expected[:12]}"
        )
    return file


def _session(path: Path, file: Path, threads: int, *, spinning: bool) -> ort.InferenceSession:
    try:
        return ort_backend.open_session(file, threads, spinning=spinning)
    except Exception as e:  # onnxruntime raises several kinds, some of them private
        raise ArtifactError(f"{path} cannot be loaded, it may be damaged: {first_line(e)}") from e


Shape = tuple[int | None, ...]  # None fits every size

_FLOAT, _INT8, _INT64 = "tensor(float)", "tensor(int8)", "tensor(int64)"


def check_graph(
    path: Path, session: ort.InferenceSession, config: ModelConfig, target: str, kv_cache: str
) -> None:
    """Compare names, types and fixed sizes of inputs and outputs; raises ArtifactError."""
    numbers = {"fp32": _FLOAT, "int8": _INT8}[kv_cache]
    cache = (numbers, (None, config.n_kv_head, None, config.head_dim))
    ids = (_INT64, (None, None))
    inputs: dict[str, tuple[str, Shape]] = {contract.INPUT_IDS: ids, contract.POSITION_IDS: ids}
    outputs: dict[str, tuple[str, Shape]] = {contract.LOGITS: (_FLOAT, (None, None, config.vocab_size))}
    for layer in range(config.n_layer):
        inputs.update(dict.fromkeys(contract.past_names(layer), cache))
        outputs.update(dict.fromkeys(contract.present_names(layer), cache))
    optional = {contract.LOGITS_START: (_INT64, (1,))} if target == contract.ENGINE else {}
    _compare(path, "input", inputs, session.get_inputs())
    _compare(path, "optional input", optional, session.get_overridable_initializers())
    _compare(path, "output", outputs, session.get_outputs())


def _compare(path: Path, kind: str, expected: Mapping[str, tuple[str, Shape]], found: list[Any]) -> None:
    names = {value.name for value in found}
    for name in expected:
        if name not in names:
            raise ArtifactError(f"the graph in {path} lacks the {kind} {name} of its config")
    for value in found:
        if value.name not in expected:
            raise ArtifactError(
                f"the graph in {path} has the {kind} {value.name}, which its config does not have"
            )
        element, shape = expected[value.name]
        if value.type != element or not _fits(value.shape, shape):
            raise ArtifactError(
                f"the graph in {path} disagrees with its config: {kind} {value.name} is {value.type} "
                f"{_shape_text(value.shape)}, expected {element} {_shape_text(shape)}"
            )


def _fits(found: list[Any], expected: Shape) -> bool:
    """Return whether the ranks are equal and no fixed size differs; a named size fits every size."""
    if len(found) != len(expected):
        return False
    pairs = zip(found, expected, strict=True)
    return all(want is None or not isinstance(got, int) or got == want for got, want in pairs)


def _shape_text(shape: Any) -> str:
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
