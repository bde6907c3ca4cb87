"""What a measured file is, from its metadata."""

import json
from dataclasses import dataclass
from pathlib import Path

from edgegpt import contract
from edgegpt.accounting import parameter_count
from edgegpt.config.model import ModelConfig
from edgegpt.errors import ArtifactError
from edgegpt.quantization import Recipe, recipe, weight_bytes_per_token
from edgegpt.runtime.onnx_file import beside_its_data, read_metadata


@dataclass(frozen=True)
class File:
    """A file that can be loaded.

    Attributes:
        path: as it was given.
        target: `engine` or `portable`.
        precision: of its weights.
        parameters: of the model.
        bytes: of the file and of its external data.
        context: block_size, in tokens.
        weight_bytes_per_token: what one decode step reads of the weights.
    """

    path: str
    target: str
    precision: str
    parameters: int
    bytes: int
    context: int
    weight_bytes_per_token: int


def read_file(path: str | Path) -> File:
    """The facts of a file that has been loaded once, so that it is known to be whole.

    Raises:
        ArtifactError: its recipe is not one of this model.
    """
    path = Path(path)
    metadata = read_metadata(path)
    config = ModelConfig.parse(metadata[contract.META_CONFIG], str(path))
    return File(
        path=str(path),
        target=metadata[contract.META_TARGET],
        precision=metadata[contract.META_PRECISION],
        parameters=parameter_count(config),
        bytes=path.stat().st_size + _data_bytes(path, metadata),
        context=config.block_size,
        weight_bytes_per_token=weight_bytes_per_token(config, _bits(path, metadata, config)),
    )


def _bits(path: Path, metadata: dict[str, str], config: ModelConfig) -> Recipe:
    """Of each matrix; a file that was not quantised has an empty recipe."""
    usual = recipe(config, "fp32")
    bits: Recipe = json.loads(metadata.get(contract.META_RECIPE, "{}")).get("bits", usual)
    if bits.keys() != usual.keys():
        raise ArtifactError(f"the recipe in {path} does not name the matrices of its model; export it again")
    return bits


def _data_bytes(path: Path, metadata: dict[str, str]) -> int:
    """Of the weights beside the file; 0 when they are inside."""
    name = metadata.get(contract.META_DATA_FILE)
    if name is None:
        return 0
    return beside_its_data(path, name).with_name(name).stat().st_size
