"""The name of a file that an option gives, be it read or written."""

from pathlib import Path

from edgegpt.errors import MeasureError


def check_name(option: str, path: Path) -> None:
    """Raise MeasureError where `path`, which `option` gave, is no text that a page or a terminal can show."""
    try:
        str(path).encode()
    except UnicodeEncodeError as e:
        raise MeasureError(f"{option} must be a name in UTF-8, got {str(path)!a}; rename it") from e
