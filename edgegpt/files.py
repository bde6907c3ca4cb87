"""Write a file whole or not at all: a temporary file in the same folder, then a rename.

What a path leads to, asked before it is opened.
"""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; it takes the final name when the block succeeds.

    On any exception, KeyboardInterrupt included, the temporary file goes and an older `path`
    stays as it was.
    """
    path = Path(path)
    temporary = _temporary(path)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())  # mkstemp's 0600 would hide the file from others
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def try_to_begin(path: Path) -> None:
    """Raise the OSError with which `atomic_write` would fail at once, as for a name that is too long."""
    _temporary(path).unlink()


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text atomically; an OSError names `path`, also where a disk is full."""
    try:
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as e:
        e.filename = os.fspath(path)
        raise


def _temporary(path: Path) -> Path:
    """A new empty file beside `path`."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    return Path(name)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def is_stream(path: Path) -> bool:
    """Whether it is a pipe or a device, whose opening may wait until somebody writes to it.

    Raises:
        OSError, ValueError: as Path.stat does.
    """
    kind = path.stat().st_mode
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind))
