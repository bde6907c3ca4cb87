"""The file that an option names to be written. Can it be? Asked before a minute of work, not after it."""

import os
from collections.abc import Sequence
from pathlib import Path

import typer

from edgegpt.cli.file_name import check_name
from edgegpt.errors import MeasureError
from edgegpt.files import try_to_begin


def out_file(text: str) -> Path:
    """What an option names to be written, as its `parser`; '' would else be the current folder."""
    if not text:
        raise typer.BadParameter("expected the name of a file to write, got ''")
    return Path(text)


def check_out_file(option: str, path: Path, suffixes: Sequence[str]) -> None:
    """Raise MeasureError where `path`, which `option` gave, cannot become a file with one of the suffixes."""
    check_name(option, path)
    if path.suffix.lower() not in suffixes:
        *most, last = suffixes
        names = f"{', '.join(most)} or {last}" if most else last
        raise MeasureError(f"{option} must name a {names} file, got {str(path)!r}")
    if not path.parent.is_dir():
        raise MeasureError(f"{option} cannot write {path}: the folder {path.parent} does not exist")
    if not os.access(path.parent, os.W_OK):
        raise MeasureError(f"{option} cannot write {path}: the folder {path.parent} is read-only")
    try:
        try_to_begin(path)
    except OSError as e:
        raise MeasureError(f"{option} cannot write {path}: {e.strerror or e}") from e
    if path.is_dir():
        raise MeasureError(f"{option} must name a file, and {path} is a folder")
