"""What only a workstation needs is an extra; this says which, in one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager

from edgegpt.errors import MissingExtraError


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Turn a failed import inside the block into the command that installs the extra."""
    try:
        yield
    except ModuleNotFoundError as e:
        raise MissingExtraError(
            f"this command needs the package {e.name!r}; install the extra [{extra}] of edgegpt, "
            f"from its repository: pip install '.[{extra}]'"
        ) from e
