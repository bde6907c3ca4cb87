"""tests/workers.py in a pytest of its own, with two workers."""

from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pytest

pytest_plugins = ["pytester"]

CONFTEST = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import workers

def pytest_configure(config):
    workers.share(config)
"""
NOTED = """
import time
from pathlib import Path
import pytest

@pytest.fixture(autouse=True)
def noted(request, worker_id):
    began = time.monotonic()
    yield
    name = f"{request.path.stem}-{request.node.name}"
    Path(f"{name}.ran").write_text(f"{worker_id} {began} {time.monotonic()}")
"""
TESTS = """
import time
import pytest

@pytest.mark.alone
@pytest.mark.parametrize("n", range(3))
def test_alone(n):
    time.sleep(0.05)

@pytest.mark.parametrize("n", range(6))
def test_beside(n):
    time.sleep(0.05)
"""
SLOW = """
import time
import pytest

@pytest.mark.slow
def test_slow():
    time.sleep(0.05)
"""
INI = """
[pytest]
addopts = --strict-markers
markers = slow
"""


class Ran(NamedTuple):
    """One test: its file, its name, its worker, begin and end."""

    file: str
    name: str
    worker: str
    began: float
    ended: float


@pytest.fixture
def ran(pytester: pytest.Pytester) -> list[Ran]:
    """Three files of tests, and one with a slow test, on two workers; a folder with a conftest of its own."""
    pytester.makeconftest(CONFTEST + NOTED)
    pytester.makeini(INI)
    pytester.makepyfile(test_a=TESTS, test_b=TESTS, test_c=TESTS, test_z=SLOW)
    pytester.mkpydir("folder").joinpath("conftest.py").write_text(CONFTEST)
    result = pytester.runpytest_subprocess(
        "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", timeout=120
    )
    result.assert_outcomes(passed=28)
    found = []
    for file in pytester.path.glob("*.ran"):
        worker, began, ended = file.read_text().split()
        found.append(Ran(*file.stem.split("-"), worker, float(began), float(ended)))
    assert len(found) == 28
    return found


def test_no_test_is_beside_one_that_is_alone_and_the_others_are_side_by_side(ran: list[Ran]) -> None:
    beside = [(a, b) for a, b in combinations(ran, 2) if max(a.began, b.began) < min(a.ended, b.ended)]
    assert beside
    assert not [test for pair in beside for test in pair if "alone" in test.name]


def test_a_file_stays_with_one_worker_and_slow_ones_come_first(ran: list[Ran]) -> None:
    for file in ("test_a", "test_b", "test_c"):
        assert len({test.worker for test in ran if test.file == file}) == 1
    (slow,) = (test for test in ran if test.name == "test_slow")
    assert not [test for test in ran if test.worker == slow.worker and test.began < slow.began]


def test_in_one_process_the_order_is_that_of_the_files(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makeini(INI)
    pytester.makepyfile(test_a=TESTS, test_z=SLOW)
    result = pytester.runpytest_subprocess("--collect-only", "-q")
    names = [line.partition("::")[2].partition("[")[0] for line in result.outlines if "::" in line]
    assert list(dict.fromkeys(names)) == ["test_alone", "test_beside", "test_slow"]
