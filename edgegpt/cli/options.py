"""The file that an option names to be written. Can it be? Asked before a minute of work, not after it.

The name of a file that an option gives, be it read or written.

The first line of a config that a command writes: where an editor finds the schema.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import typer

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


def check_name(option: str, path: Path) -> None:
    """Raise MeasureError where `path`, which `option` gave, is no text that a page or a terminal can show."""
    try:
        str(path).encode()
    except UnicodeEncodeError as e:
        raise MeasureError(f"{option} must be a name in UTF-8, got {str(path)!a}; rename it") from e


# From a folder of configs, and from the repository's root.
_FOLDERS: Final = ("../schemas", "configs/schemas")


def schema_comment(out: Path, kind: str) -> str:
    """A line for yaml-language-server with the path from `out` to the schema of a `kind`, such as `model`.

    Empty where no schema is there: an editor would complain of a path that leads nowhere.
    """
    for folder in _FOLDERS:
        schema = f"{folder}/{kind}.schema.json"
        if (out.parent / schema).is_file():
            return f"# yaml-language-server: $schema={schema}\n"
    return ""
