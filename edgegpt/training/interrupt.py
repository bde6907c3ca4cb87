"""Let Ctrl-C wait for a good moment."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def deferred_interrupt() -> Iterator[threading.Event]:
    """Give an event that SIGINT sets instead of raising; a second SIGINT raises as usual.

    Outside the main thread, where Python handles no signals, the event is never set.
    """
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return

    def note(*_: object) -> None:
        interrupted.set()
        signal.signal(signal.SIGINT, previous)

    previous = signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, previous)
