"""Where things lie in a model's folder; in a file of its own because it needs no torch."""

from pathlib import Path

from edgegpt.config import ModelConfig


def checkpoint_path(folder: Path) -> Path:
    """The checkpoint from which every engine's file is made."""
    return folder / "checkpoint"


def read_config(folder: Path) -> ModelConfig:
    """The checkpoint's config."""
    return ModelConfig.from_yaml(checkpoint_path(folder) / "config.yaml")
