"""Options that several commands share: files to write, checked before the work begins."""

from collections.abc import Sequence
from pathlib import Path

import typer

from edgegpt.errors import MeasureError
from edgegpt.files import try_to_begin


def out_file(text: str) -> Path:
    """Parse the value of an option that names a file to write; an empty one would be the current folder."""
    if not text:
        raise typer.BadParameter("expected the name of a file to write, got ''")
    return Path(text)


def check_out_file(option: str, path: Path, suffixes: Sequence[str]) -> None:
    """Check that the file which `option` names can be written.

    Raises:
        MeasureError: the name has another suffix, is that of a folder, or no file can be made there.
    """
    if path.suffix.lower() not in suffixes or path.is_dir():
        raise MeasureError(f"{option} must name a file ending in {' or '.join(suffixes)}, got {str(path)!r}")
    try:
        try_to_begin(path)
    except OSError as e:
        raise MeasureError(f"{option} cannot write {path}: {e.strerror or e}") from e


def schema_comment(out: Path, kind: str) -> str:
    """Return the first line of a YAML file, which names the schema of a `kind` such as `model` to editors.

    It is empty where `out` is neither in a folder of configs nor in the repository's root.
    """
    for folder in ("../schemas", "configs/schemas"):
        if (out.parent / folder).is_dir():
            return f"# yaml-language-server: $schema={folder}/{kind}.schema.json\n"
    return ""
