"""Read and write a checkpoint folder: config.yaml, model.safetensors, tokenizer.json.

A sampling.yaml is optional and read by the export. Nothing is pickled, so loading runs no code from it.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from edgegpt.config import ModelConfig
from edgegpt.errors import CheckpointError
from edgegpt.files import atomic_write
from edgegpt.model.gpt import GPT
from edgegpt.tokenizer import Tokenizer

CONFIG, WEIGHTS, TOKENIZER = "config.yaml", "model.safetensors", "tokenizer.json"
_MOST_DIFFERENCES: Final = 10  # listed in one error


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint; the model is float32, on the CPU and in eval mode."""

    model: GPT
    tokenizer: Tokenizer
    weights_sha256: str

    @property
    def config(self) -> ModelConfig:
        """The model's config."""
        return self.model.config

    @property
    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """Weights by name, sharing the model's memory; a tied head appears under both its names."""
        return {name: tensor.numpy() for name, tensor in self.model.state_dict().items()}


def save_checkpoint(
    folder: str | Path, model: GPT, tokenizer: Tokenizer, dtype: torch.dtype = torch.float32
) -> None:
    """Write the three files, each whole or not at all; weights are stored as `dtype`.

    Raises:
        CheckpointError: a weight is NaN or infinite as `dtype`, or the folder cannot be written.
    """
    folder = Path(folder)
    tensors = model.state_dict()
    state = {
        name: tensors[name].detach().to("cpu", dtype).contiguous() for name in model.config.parameter_shapes()
    }
    broken = [name for name, tensor in state.items() if not torch.isfinite(tensor).all()]
    if broken:
        raise CheckpointError(f"{folder} is not written: NaN or infinity as {dtype} in {', '.join(broken)}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (  # none gets its name before all are written, so a folder is never half old
            atomic_write(folder / CONFIG) as config_path,
            atomic_write(folder / TOKENIZER) as tokenizer_path,
            atomic_write(folder / WEIGHTS) as weights_path,
        ):
            config_path.write_text(model.config.to_yaml(), encoding="utf-8")
            tokenizer_path.write_text(tokenizer.to_json(), encoding="utf-8")
            save_file(state, weights_path, metadata={"format": "pt"})
    except (OSError, SafetensorError) as e:
        raise CheckpointError(f"{folder} cannot be written: {e}") from e


def load_checkpoint(folder: str | Path) -> Checkpoint:
    """Load a checkpoint folder.

    Raises:
        CheckpointError: a file is missing or damaged, or the tensors are not those of the config;
            every difference is listed.
        ConfigError: config.yaml is not valid.
        TokenizerError: tokenizer.json is not one of ours.
    """
    folder = Path(folder)
    _check_files(folder)
    config = ModelConfig.from_yaml(folder / CONFIG)
    tokenizer = Tokenizer.from_file(folder / TOKENIZER)
    if tokenizer.vocab_size > config.vocab_size:
        raise CheckpointError(
            f"{folder}: the tokenizer has {tokenizer.vocab_size} tokens but the model only "
            f"vocab_size {config.vocab_size}; train the tokenizer smaller or the model wider"
        )
    state = _checked(folder / WEIGHTS, _read_weights(folder / WEIGHTS), config)
    model = GPT(config)
    # A tied head has no tensor in the file; the module shares wte's, which strict=False accepts.
    model.load_state_dict(state, strict=False)
    digest = hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    return Checkpoint(model.eval(), tokenizer, digest)


def _check_files(folder: Path) -> None:
    if not folder.exists():
        raise CheckpointError(f"{folder} does not exist; expected a checkpoint folder")
    if not folder.is_dir():
        raise CheckpointError(
            f"{folder} is a file, expected a folder with {CONFIG}, {WEIGHTS}, {TOKENIZER}, as edgegpt train "
            "makes it"
        )
    missing = [name for name in (CONFIG, WEIGHTS, TOKENIZER) if not (folder / name).is_file()]
    if missing:
        raise CheckpointError(
            f"{folder} is not a checkpoint: {', '.join(missing)} missing; `edgegpt train` makes one, and "
            "--resume continues an interrupted run"
        )


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(path)
    except OSError as e:
        raise CheckpointError(f"{path} cannot be read: {e.strerror or e}") from e
    except SafetensorError as e:
        raise CheckpointError(f"{path} cannot be read as safetensors, it may be truncated: {e}") from e


def _checked(path: Path, state: dict[str, torch.Tensor], config: ModelConfig) -> dict[str, torch.Tensor]:
    """Return the tensors as float32; raise CheckpointError unless they match the config and are finite."""
    expected = config.parameter_shapes()
    differences = [f"{name} is missing" for name in expected if name not in state]
    differences += [f"{name} is not part of the model" for name in state if name not in expected]
    tensors = {}
    for name, shape in expected.items():
        if name not in state:
            continue
        tensor = state[name]
        if tuple(tensor.shape) != shape:
            differences.append(f"{name} is {list(tensor.shape)}, expected {list(shape)}")
        elif not tensor.is_floating_point():
            differences.append(f"{name} is {tensor.dtype}, expected a floating-point type")
        else:
            try:
                tensors[name] = tensor.float()
            except NotImplementedError:
                differences.append(f"{name} is {tensor.dtype}, which torch cannot convert to float32")
            else:
                if not torch.isfinite(tensors[name]).all():
                    differences.append(f"{name} holds NaN or infinity as float32")
    if differences:
        more = len(differences) - _MOST_DIFFERENCES
        listed = differences[:_MOST_DIFFERENCES] + ([f"and {more} more"] if more > 0 else [])
        raise CheckpointError(f"{path} disagrees with its config: " + "; ".join(listed))
    return tensors
