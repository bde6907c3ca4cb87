"""The first line of a config that a command writes: where an editor finds the schema."""

from pathlib import Path
from typing import Final

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
