"""What a file is and where it comes from."""

from dataclasses import dataclass
from pathlib import Path

from edgegpt import contract
from edgegpt.accounting import kv_cache_bytes, parameter_count
from edgegpt.config.model import ModelConfig
from edgegpt.errors import ArtifactError
from edgegpt.runtime.artifact import Artifact
from edgegpt.runtime.onnx_file import file_sha256, read_metadata
from edgegpt.runtime.sampling import SamplingParams


@dataclass(frozen=True)
class Facts:
    """A file as it lies on the disk.

    Attributes:
        path: as it was given.
        bytes: of the file and of its external data.
        sha256: of the .onnx file, as `sha256sum` prints it.
        data_file: name of the external data; None where the weights are inside.
        data_sha256: of that file.
        sealed: whether the exporter wrote a checksum behind everything else, which opening has checked.
        config: the model's shape.
        parameters: of the model.
        vocabulary: tokens that the tokenizer knows.
        target: `engine` or `portable`.
        precision: `fp32`, `int8`, `int4` or `auto`.
        kv_cache: of a number in the cache, `fp32` or `int8`.
        kv_bytes_per_token: of the cache.
        weights_sha256: of the checkpoint's model.safetensors; empty where the file does not say.
        tool: what made the file; empty where the file does not say.
        sampling: the file's defaults.
    """

    path: Path
    bytes: int
    sha256: str
    data_file: str | None
    data_sha256: str | None
    sealed: bool
    config: ModelConfig
    parameters: int
    vocabulary: int
    target: str
    precision: str
    kv_cache: str
    kv_bytes_per_token: int
    weights_sha256: str
    tool: str
    sampling: SamplingParams

    @property
    def name(self) -> str:
        """Without the folder, which is nobody else's business."""
        return self.path.name

    @property
    def kv_bytes(self) -> int:
        """One cache of the whole context."""
        return self.kv_bytes_per_token * self.config.block_size


def read_facts(artifact: Artifact) -> Facts:
    """The facts of an open file; raises ArtifactError where it went away meanwhile."""
    try:
        metadata, sha256 = read_metadata(artifact.path), file_sha256(artifact.path)
    except OSError as e:
        raise ArtifactError(f"{artifact.path} cannot be read: {e.strerror or e}") from e
    config = artifact.config
    return Facts(
        path=artifact.path,
        bytes=artifact.bytes,
        sha256=sha256,
        data_file=metadata.get(contract.META_DATA_FILE),
        data_sha256=metadata.get(contract.META_DATA_SHA256),
        sealed=contract.META_FILE_SHA256 in metadata,
        config=config,
        parameters=parameter_count(config),
        vocabulary=artifact.tokenizer.vocab_size,
        target=artifact.target,
        precision=artifact.precision,
        kv_cache=artifact.kv_cache,
        kv_bytes_per_token=kv_cache_bytes(config, 1, artifact.kv_cache),
        weights_sha256=artifact.weights_sha256,
        tool=artifact.tool,
        sampling=artifact.sampling,
    )
