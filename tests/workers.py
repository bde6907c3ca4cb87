"""How the tests of one run share a machine under pytest-xdist.

The workers take whole files (`--dist loadfile --no-loadscope-reorder`), so that what a module sets up is set
up once. Tests side by side hold one file lock together; a test marked `alone`, because it asserts a time,
holds it by itself, so that no other one is at work meanwhile.
"""

import fcntl
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest


def share(config: pytest.Config) -> None:
    """For a conftest's pytest_configure: register the hooks here, once, however many conftests ask for them.

    xdist calls a test's hooks of every conftest, also of those in other folders.
    """
    if not config.pluginmanager.has_plugin(__name__):
        config.pluginmanager.register(sys.modules[__name__], __name__)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and keep torch to one core in the processes that tests start too."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    config.addinivalue_line("markers", "alone: asserts a time; no other test of the run is at work meanwhile")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files with slow tests first, so that no worker ends with one; what is alone last in its file."""
    if _is_worker(config):
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: (item.path not in slow, _is_alone(item)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Set-up, call and teardown of one test."""
    if not _is_worker(item.config):  # one process: everything is alone
        return (yield)
    folder = Path(item.config.getoption("basetemp")).parent  # that of the run, above those of its workers
    with ExitStack() as stack:
        # Whoever waits for the room keeps the door, or the others would go in and out for ever.
        with _locked(folder / "door.lock", fcntl.LOCK_EX):
            kind = fcntl.LOCK_EX if _is_alone(item) else fcntl.LOCK_SH
            stack.enter_context(_locked(folder / "room.lock", kind))
        return (yield)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


@contextmanager
def _locked(file: Path, kind: int) -> Iterator[None]:
    with file.open("w") as opened:
        fcntl.flock(opened, kind)
        yield  # closing gives it back
