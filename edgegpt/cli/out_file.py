"""Can a file be written there? Asked before a minute of work, not after it."""

import os
from collections.abc import Sequence
from pathlib import Path

from edgegpt.errors import MeasureError


def check_out_file(option: str, path: Path, suffixes: Sequence[str]) -> None:
    """Raise MeasureError where `path`, which `option` gave, cannot become a file with one of the suffixes."""
    if path.suffix.lower() not in suffixes:
        *most, last = suffixes
        names = f"{', '.join(most)} or {last}" if most else last
        raise MeasureError(f"{option} must name a {names} file, got {str(path)!r}")
    if not path.parent.is_dir():
        raise MeasureError(f"{option} cannot write {path}: the folder {path.parent} does not exist")
    if not os.access(path.parent, os.W_OK):
        raise MeasureError(f"{option} cannot write {path}: the folder {path.parent} is read-only")
    if path.is_dir():
        raise MeasureError(f"{option} must name a file, and {path} is a folder")
