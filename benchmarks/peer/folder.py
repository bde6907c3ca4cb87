"""Where things lie in a model's folder, and what an engine has to know of the model.

Without pydantic, which the memory of a process should count for edgegpt alone.
"""

import json
from pathlib import Path
from typing import NamedTuple


class Shape(NamedTuple):
    """What engines ask for that their own files do not tell them."""

    vocab_size: int
    block_size: int


def checkpoint_path(folder: Path) -> Path:
    """The checkpoint from which every engine's file is made."""
    return folder / "checkpoint"


def write_shape(folder: Path, shape: Shape) -> None:
    """Leave a shape for `read_shape`."""
    (folder / "shape.json").write_text(json.dumps(shape._asdict()))


def read_shape(folder: Path) -> Shape:
    """The model's shape."""
    return Shape(**json.loads((folder / "shape.json").read_text()))
