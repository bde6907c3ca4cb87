"""Open an exported .onnx file: its metadata, its tokenizer, and one onnxruntime session."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnxruntime as ort

from edgegpt import contract
from edgegpt.config import ModelConfig
from edgegpt.errors import ArtifactError, ConfigError, SamplingError, TokenizerError
from edgegpt.graph_check import check_graph
from edgegpt.onnx_metadata import read_metadata
from edgegpt.ort_session import open_session
from edgegpt.sampling import SamplingParams
from edgegpt.short_cause import short_cause
from edgegpt.tokenizer import Tokenizer


@dataclass(frozen=True)
class Artifact:
    """An open model file.

    Attributes:
        path: the .onnx file.
        config: the model's shape.
        tokenizer: the model's own; it may have fewer tokens than config.vocab_size.
        target: `engine` or `portable`.
        precision: of the weights, `fp32` or a quantised one.
        recipe: how the weights were quantised; empty for fp32.
        weights_sha256: of the checkpoint's model.safetensors.
        evidence: what the export's verification measured.
        sampling: the file's sampling defaults.
        tool: what made the file.
        bytes: size of the file and of its external data.
        session: the onnxruntime session.
    """

    path: Path
    config: ModelConfig
    tokenizer: Tokenizer
    target: str
    precision: str
    recipe: dict[str, Any]
    weights_sha256: str
    evidence: dict[str, Any]
    sampling: SamplingParams
    tool: str
    bytes: int
    session: ort.InferenceSession


def open_artifact(path: str | Path, *, threads: int = 1) -> Artifact:
    """Open a file made by `edgegpt export`, on the CPU with `threads` threads that do not spin.

    Raises:
        ArtifactError: threads is below 1, or the file is missing, damaged, foreign, of another
            format version, or its parts disagree.
    """
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ArtifactError(f"threads must be a whole number of at least 1, got {threads!r}")
    path = Path(path)
    metadata = _metadata(path)
    config, tokenizer, sampling = _parts(path, metadata)
    data_bytes = _check_data(path, metadata)
    session = _session(path, threads)
    check_graph(path, session, config)
    return Artifact(
        path=path,
        config=config,
        tokenizer=tokenizer,
        target=metadata[contract.META_TARGET],
        precision=metadata[contract.META_PRECISION],
        recipe=_mapping(path, metadata, contract.META_RECIPE),
        weights_sha256=metadata.get(contract.META_WEIGHTS_SHA256, ""),
        evidence=_mapping(path, metadata, contract.META_EVIDENCE),
        sampling=sampling,
        tool=metadata.get(contract.META_TOOL, ""),
        bytes=path.stat().st_size + data_bytes,
        session=session,
    )


def _metadata(path: Path) -> dict[str, str]:
    if not path.exists():
        raise ArtifactError(f"{path} does not exist; expected an .onnx file made by `edgegpt export`")
    if path.is_dir():
        raise ArtifactError(f"{path} is a folder; expected an .onnx file made by `edgegpt export`")
    try:
        if not path.stat().st_size:
            raise ValueError("it is empty")
        metadata = read_metadata(path)
    except (OSError, ValueError) as e:
        raise ArtifactError(f"{path} is not a whole ONNX file: {e}") from e
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
    keys = (contract.META_TARGET, contract.META_CONFIG, contract.META_TOKENIZER, contract.META_PRECISION)
    if missing := [key for key in keys if key not in metadata]:
        raise ArtifactError(f"{path} lacks the metadata {', '.join(missing)}; export it again")
    target = metadata[contract.META_TARGET]
    if target not in (contract.ENGINE, contract.PORTABLE):
        raise ArtifactError(f"{path} has the target {target!r}, expected engine or portable")
    return metadata


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
    """The JSON object under `key`, empty where the file has none."""
    text = metadata.get(key, "{}")
    try:
        value = json.loads(text)
    except ValueError as e:
        raise ArtifactError(f"the metadata {key} in {path} is not JSON: {e}") from e
    if not isinstance(value, dict):
        raise ArtifactError(f"the metadata {key} in {path} must be a JSON object, got {text[:40]!r}")
    return value


def _check_data(path: Path, metadata: dict[str, str]) -> int:
    """Check the weights beside the file, where there are any; their bytes."""
    expected = metadata.get(contract.META_DATA_SHA256)
    if expected is None:
        return 0
    data = path.with_name(path.name + ".data")
    if not data.is_file():
        raise ArtifactError(f"{data} is missing; it holds the weights of {path.name} and belongs beside it")
    digest = hashlib.sha256()
    with data.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != expected:
        raise ArtifactError(
            f"{data} does not belong to {path.name} or is damaged: its sha256 begins "
            f"{digest.hexdigest()[:12]}, expected {expected[:12]}"
        )
    return data.stat().st_size


def _session(path: Path, threads: int) -> ort.InferenceSession:
    try:
        return open_session(path, threads)
    except Exception as e:  # onnxruntime raises several kinds, some of them private
        raise ArtifactError(f"{path} cannot be loaded, it may be damaged: {short_cause(e)}") from e
