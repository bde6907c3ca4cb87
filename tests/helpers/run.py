"""What each process of a test run sets up, for tests/ and for tests/ros.

Both conftests import these hooks; pytest finds them there. The two halves of a run, and why there are two:
tools/run-tests.
"""

import os
import signal
from collections.abc import Iterator

import pytest

_IGNORED_BY_NOHUP = (signal.SIGINT, signal.SIGHUP)


def pytest_configure(config: pytest.Config) -> None:
    """Keep torch to one core, also in the processes that tests start."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give xdist files with slow tests first, so that no worker starts one at the end of the run."""
    if hasattr(config, "workerinput"):
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session", autouse=True)
def default_signals_in_children() -> Iterator[None]:
    """Start processes with default signal handling even if this one ignores Ctrl-C or hang-up.

    A shell's background job ignores SIGINT, nohup SIGHUP, and processes inherit that. This process still
    ignores them, but by a handler, which exec resets to the default.
    """
    ignored = [number for number in _IGNORED_BY_NOHUP if signal.getsignal(number) == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
