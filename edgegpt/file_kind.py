"""What a path leads to, asked before it is opened."""

import stat
from pathlib import Path


def is_stream(path: Path) -> bool:
    """Whether it is a pipe or a device, whose opening may wait until somebody writes to it.

    Raises:
        OSError, ValueError: as Path.stat does.
    """
    kind = path.stat().st_mode
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind))
