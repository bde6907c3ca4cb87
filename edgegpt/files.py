"""Write a file whole or not at all, by a rename; detect pipes before they are opened."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of `path`, renamed to `path` when the block succeeds.

    On any exception, KeyboardInterrupt included, the temporary file is removed and an older `path` is kept.
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
    """Raise the OSError with which `atomic_write` would fail at once, such as a name that is too long."""
    _temporary(path).unlink()


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text atomically; an OSError, also of a full disk, has `path` as its file name."""
    try:
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as e:
        e.filename = os.fspath(path)
        raise


def is_stream(path: Path) -> bool:
    """Return whether it is a pipe or a device, which may block when it is opened.

    Raises:
        OSError, ValueError: as Path.stat does.
    """
    kind = path.stat().st_mode
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind))


def _temporary(path: Path) -> Path:
    """Create an empty temporary file in the folder of `path`."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    return Path(name)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
