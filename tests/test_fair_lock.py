"""edgegpt.runtime.fair_lock: order, exclusion, re-entry, and interruption while waiting."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from edgegpt.runtime.fair_lock import FairLock

SOON = 10  # seconds after which a test that hangs fails


class Interrupting:
    """Replaces the module `threading`: a thread that waits for a gate is interrupted."""

    get_ident = staticmethod(threading.get_ident)

    def __init__(self, interrupt: Callable[["Gate"], None]) -> None:
        self._interrupt = interrupt

    def Lock(self) -> "Gate":  # noqa: N802
        return Gate(self._interrupt)


class Gate:
    def __init__(self, interrupt: Callable[["Gate"], None]) -> None:
        self._interrupt = interrupt
        self._closed = False

    def acquire(self) -> None:
        if self._closed:
            self._interrupt(self)
        self._closed = True

    def release(self) -> None:
        pass


def queue_up(lock: FairLock, thread: threading.Thread) -> None:
    """Start a thread and wait until it waits."""
    before = lock.waiting
    thread.start()
    while lock.waiting == before:
        assert thread.is_alive()
        time.sleep(0.001)


def test_waiting_threads_get_it_in_the_order_of_their_arrival() -> None:
    lock, order = FairLock(), list[int]()

    def work(n: int) -> None:
        with lock:
            order.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
    with lock:
        for thread in threads:
            queue_up(lock, thread)
        assert order == []
    with lock:  # a thread that acquires it again at once comes after all of them
        assert order == list(range(20))
    assert lock.waiting == 0


def test_one_holds_it_at_a_time_and_what_is_raised_inside_gives_it_back() -> None:
    lock, inside, alone = FairLock(), list[int](), list[bool]()

    def work() -> None:
        for _ in range(200):
            with suppress(ZeroDivisionError), lock:
                inside.append(1)
                alone.append(len(inside) == 1)
                inside.pop()
                raise ZeroDivisionError

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive()
    assert alone == [True] * 800
    assert lock.waiting == 0


def test_the_thread_that_holds_it_may_take_it_again() -> None:
    lock = FairLock()
    with lock:
        with lock, lock:
            other = threading.Thread(target=lambda: lock.__enter__())
            queue_up(lock, other)
        assert other.is_alive()
    other.join(SOON)
    assert not other.is_alive()


@pytest.mark.parametrize("granted", [False, True])
def test_a_thread_that_is_interrupted_while_it_waits_blocks_no_other(
    monkeypatch: pytest.MonkeyPatch, granted: bool
) -> None:
    """As by Ctrl-C, before the lock was handed to it or at that moment."""
    lock = FairLock()

    def interrupted(gate: Gate) -> None:
        if granted:
            holder_may_end.set()
            holder.join(SOON)
        raise KeyboardInterrupt

    holds, holder_may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            holds.set()
            assert holder_may_end.wait(SOON)

    holder = threading.Thread(target=hold)
    holder.start()
    assert holds.wait(SOON)
    monkeypatch.setattr("edgegpt.runtime.fair_lock.threading", Interrupting(interrupted))
    with pytest.raises(KeyboardInterrupt):
        lock.__enter__()
    monkeypatch.undo()
    holder_may_end.set()
    holder.join(SOON)
    assert lock.waiting == 0
    thread = threading.Thread(target=lambda: lock.__enter__())
    thread.start()
    thread.join(SOON)
    assert not thread.is_alive()
