"""Threads of a test, which fail it where they hang."""

import threading
from collections.abc import Callable
from typing import Final

SOON: Final = 10  # seconds


def start(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def join(*threads: threading.Thread) -> None:
    """Wait for their ends."""
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive()


def run_together(*works: Callable[[], object]) -> None:
    """Run each in a thread of its own."""
    join(*map(start, works))
