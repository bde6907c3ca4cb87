import threading
import time
from contextlib import suppress

import pytest

from edgegpt.runtime.fair_lock import FairLock

SOON = 10  # seconds after which a test that hangs fails


class Interrupting:
    """Stands for `threading`: a thread that waits for a gate is interrupted."""

    get_ident = staticmethod(threading.get_ident)

    def __init__(self, interrupt):
        self._interrupt = interrupt

    def Lock(self):  # noqa: N802
        gate = Gate()
        gate.interrupt = self._interrupt
        return gate


class Gate:
    closed = False

    def acquire(self):
        if self.closed:
            self.interrupt(self)
        self.closed = True

    def release(self):
        pass


def queue_up(lock, thread):
    """Start a thread and wait until it waits."""
    before = lock.waiting
    thread.start()
    while lock.waiting == before:
        assert thread.is_alive()
        time.sleep(0.001)


def test_those_that_wait_get_it_in_the_order_in_which_they_came():
    lock, order = FairLock(), []

    def work(n):
        with lock:
            order.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
    with lock:
        for thread in threads:
            queue_up(lock, thread)
        assert order == []
    with lock:  # who asks again at once comes after all of them
        assert order == list(range(20))
    assert lock.waiting == 0


def test_one_holds_it_at_a_time_and_what_is_raised_inside_gives_it_back():
    lock, inside, alone = FairLock(), [], []

    def work():
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


def test_the_thread_that_holds_it_may_take_it_again():
    lock = FairLock()
    with lock:
        with lock, lock:
            other = threading.Thread(target=lambda: lock.__enter__())
            queue_up(lock, other)
        assert other.is_alive()
    other.join(SOON)
    assert not other.is_alive()


@pytest.mark.parametrize("granted", [False, True])
def test_one_that_is_interrupted_while_it_waits_is_in_nobodys_way(monkeypatch, granted):
    """As Ctrl-C does, before the lock was given to it or just when it was."""
    lock = FairLock()

    def interrupted(gate):
        if granted:
            holder_may_end.set()
            holder.join(SOON)
        raise KeyboardInterrupt

    holds, holder_may_end = threading.Event(), threading.Event()

    def hold():
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
