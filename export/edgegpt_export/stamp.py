"""What a file says about itself: the metadata_props under `edgegpt.*` keys."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
import onnxruntime
from onnx import ModelProto

from edgegpt import __version__, contract
from edgegpt.runtime.onnx_file import file_sha256, metadata_entry
from edgegpt_export.bit_allocation import Quantisation

if TYPE_CHECKING:
    from edgegpt.model.checkpoint import Checkpoint


def metadata(
    checkpoint: "Checkpoint", target: str, quantisation: Quantisation, sampling: Mapping[str, Any]
) -> dict[str, str]:
    """Everything known before verification. Nothing in it depends on when or where it is made."""
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
    """Name and version of what makes the file."""
    import torch  # here, because files of random weights are stamped without it

    return (
        f"edgegpt {__version__}, torch {torch.__version__}, "
        f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}"
    )


def add_metadata(model: ModelProto, entries: Mapping[str, str]) -> None:
    """Append entries to a model in memory."""
    for key, value in entries.items():
        model.metadata_props.add(key=key, value=value)


def append_metadata(path: Path, entries: Mapping[str, str]) -> None:
    """Append entries to a file, whose bytes so far stay as they are.

    Two protobuf messages one after the other are one message with both their entries, so what was
    verified is not written again.
    """
    addition = ModelProto()
    add_metadata(addition, entries)
    with path.open("ab") as file:
        file.write(addition.SerializeToString(deterministic=True))


def seal(path: Path) -> None:
    """Append the sha256 of the file so far, by which whoever opens it finds damage; nothing may follow."""
    entry = metadata_entry(contract.META_FILE_SHA256, file_sha256(path))
    with path.open("ab") as file:
        file.write(entry)
