"""edgegpt.runtime.fair_lock: order, exclusion, re-entry, and interruption while waiting."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from helpers.threads import SOON, join, run_together, start

from edgegpt.runtime.fair_lock import FairLock


class Interrupting:
    """Replaces the module `threading`, and is the gate: a thread that waits for it is interrupted."""

    get_ident = staticmethod(threading.get_ident)

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._closed = False

    def Lock(self) -> "Interrupting":  # noqa: N802
        return self

    def acquire(self) -> None:
        if self._closed:
            self._interrupt()
        self._closed = True

    def release(self) -> None:
        pass


def queue_up(lock: FairLock, work: Callable[[], object]) -> threading.Thread:
    """Start a thread and wait until it waits."""
    before = lock.waiting
    thread = start(work)
    while lock.waiting == before:
        assert thread.is_alive()
        time.sleep(0.001)
    return thread


def test_waiting_threads_get_it_in_the_order_of_their_arrival() -> None:
    lock, order = FairLock(), list[int]()

    def work(n: int) -> Callable[[], None]:
        def append() -> None:
            with lock:
                order.append(n)

        return append

    with lock:
        for n in range(20):
            queue_up(lock, work(n))
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

    run_together(*[work] * 4)
    assert alone == [True] * 800
    assert lock.waiting == 0


def test_the_thread_that_holds_it_may_take_it_again() -> None:
    lock = FairLock()
    with lock:
        with lock, lock:
            other = queue_up(lock, lock.__enter__)
        assert other.is_alive()
    join(other)


@pytest.mark.parametrize("granted", [False, True])
def test_a_thread_that_is_interrupted_while_it_waits_blocks_no_other(
    monkeypatch: pytest.MonkeyPatch, granted: bool
) -> None:
    """As by Ctrl-C, before the lock was handed to it or at that moment."""
    lock, holds, holder_may_end = FairLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            holds.set()
            assert holder_may_end.wait(SOON)

    def interrupted() -> None:
        if granted:
            holder_may_end.set()
            join(holder)
        raise KeyboardInterrupt

    holder = start(hold)
    assert holds.wait(SOON)
    monkeypatch.setattr("edgegpt.runtime.fair_lock.threading", Interrupting(interrupted))
    with pytest.raises(KeyboardInterrupt):
        lock.__enter__()
    monkeypatch.undo()
    holder_may_end.set()
    join(holder)
    assert lock.waiting == 0
    run_together(lock.__enter__)
