"""Budgets as tests: `pytest --edgegpt-model FILE.onnx --edgegpt-budget BUDGET.yaml`.

The hooks of the plugin. Every pytest on a machine where edgegpt is installed loads this file, so it imports
pytest alone until its options are given; `-p no:edgegpt` leaves it out altogether.
"""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from edgegpt.pytest_plugin.fixture import BudgetFixture, BudgetSession

_SESSION: "pytest.StashKey[BudgetSession]" = pytest.StashKey()
_MARKER = "edgegpt_budget"
_NEEDS_OPTIONS = "needs --edgegpt-model FILE.onnx and --edgegpt-budget BUDGET.yaml"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; without the first two the plugin does nothing."""
    group = parser.getgroup("edgegpt", "check an edgegpt model file against a budget")
    group.addoption("--edgegpt-model", metavar="FILE.onnx", help="the file, made by `edgegpt export`")
    group.addoption(
        "--edgegpt-budget", metavar="BUDGET.yaml", help="the limits; each becomes a test of its own"
    )
    group.addoption(
        "--edgegpt-checkpoint",
        metavar="FOLDER",
        help="the checkpoint of the file, to verify it against PyTorch; needs the extra [export]",
    )
    group.addoption(
        "--edgegpt-seconds",
        metavar="SECONDS",
        type=float,
        help="seconds to measure per process; more narrow the intervals",
    )


@pytest.hookimpl(trylast=True)  # after pytest-xdist has decided whether to distribute
def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and, where the options are given, the hooks that collect and measure."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(*limits): a test that measures against the budget of --edgegpt-budget; skipped without "
        "it, or where the budget lacks one of the named limits, such as 'token_ms.p99'",
    )
    names = ("model", "budget", "checkpoint", "seconds")
    given = [name for name in names if config.getoption(f"--edgegpt-{name}") is not None]
    if not given:
        return
    if missing := [name for name in ("model", "budget") if name not in given]:
        raise pytest.UsageError(f"--edgegpt-{given[0]} needs --edgegpt-{missing[0]} as well")
    if _under_xdist(config):
        raise pytest.UsageError(
            "edgegpt does not measure under pytest-xdist, whose workers compete for the cores; run without "
            "-n, or with -n 0"
        )
    from edgegpt.pytest_plugin.fixture import BudgetSession
    from edgegpt.pytest_plugin.items import BudgetItems

    session = config.stash[_SESSION] = BudgetSession.from_config(config)
    config.pluginmanager.register(BudgetItems(session), "edgegpt-budget-items")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a marked test whose budget or limit is missing; fail it where no budget can have its limit."""
    for marker in item.iter_markers(_MARKER):
        session = item.config.stash.get(_SESSION, None)
        if session is None:
            pytest.skip(_NEEDS_OPTIONS)
        for name in marker.args:
            from edgegpt.pytest_plugin.fixture import one_sentence

            with one_sentence():
                marked = session.has_marked(name)
            if not marked:
                pytest.skip(f"the budget {session.budget.name!r} has no limit {name!r}")


@pytest.fixture
def edgegpt_budget(request: pytest.FixtureRequest) -> "BudgetFixture":
    """Return file and budget of the options, what was measured, and `hold` for a test's own figures."""
    session = request.config.stash.get(_SESSION, None)
    if session is None:
        pytest.skip(_NEEDS_OPTIONS)
    return session.for_test(request.node)


def _under_xdist(config: pytest.Config) -> bool:
    """Return whether this is a worker of pytest-xdist or the process that starts them.

    Without `tx`, workers to start, nothing is distributed with any value of `--dist`.
    """
    starts = config.getoption("dist", "no") != "no" and bool(config.getoption("tx", None))
    return hasattr(config, "workerinput") or starts
