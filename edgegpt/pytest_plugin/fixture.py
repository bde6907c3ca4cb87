"""One file and one budget in a pytest run, measured once for all tests, and the fixture for tests."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from edgegpt.budget import (
    SECONDS,
    Budget,
    Check,
    Row,
    SecondsOption,
    Verdict,
    board_limits,
    check_file,
    check_seconds,
    doubt,
    estimate_samples,
    held_limits,
    limit_names,
    rows,
    sentence,
)
from edgegpt.config import nearest
from edgegpt.errors import BudgetError, EdgeGPTError
from edgegpt.measure import Machine, this_machine
from edgegpt.runtime import file_identity

_OPTION: Final = SecondsOption("--edgegpt-seconds")


class BudgetSession:
    """File and budget of the options, and the measurements that all tests share.

    Attributes:
        model: the .onnx file.
        path: the budget file.
        budget: content of that file.
        limits: all limits by name: the budget's, and its board's memory.
        checkpoint: the folder that the file was exported from, if it was given.
        machine: the machine before anything was measured.
    """

    def __init__(self, model: Path, path: Path, checkpoint: Path | None, seconds: float) -> None:
        self.model = model
        self.path = path
        self.budget = Budget.from_yaml(path)
        self.limits = held_limits(self.budget)
        check_seconds(seconds)
        self.checkpoint = checkpoint
        self.machine: Machine = this_machine()
        self._seconds = seconds
        self._check: Check | EdgeGPTError | None = None

    @classmethod
    def from_config(cls, config: pytest.Config) -> "BudgetSession":
        """Read pytest's options, relative to where it was started; raises pytest.UsageError."""
        folder = config.invocation_params.dir
        checkpoint, seconds = config.getoption("--edgegpt-checkpoint"), config.getoption("--edgegpt-seconds")
        model = folder / config.getoption("--edgegpt-model")
        checkpoint = None if checkpoint is None else folder / checkpoint
        try:
            if not model.is_file():
                raise pytest.UsageError(f"--edgegpt-model: {model} is not a file")
            if checkpoint is not None and not checkpoint.is_dir():
                raise pytest.UsageError(f"--edgegpt-checkpoint: {checkpoint} is not a folder")
            file_identity(model)  # one error for the options instead of one in each test
            return cls(
                model,
                folder / config.getoption("--edgegpt-budget"),
                checkpoint,
                SECONDS if seconds is None else seconds,
            )
        except (EdgeGPTError, OSError) as e:  # OSError: such as a name of 300 characters
            raise pytest.UsageError(str(e)) from e

    @property
    def checked(self) -> Check | None:
        """Result of the check; None before it, and where it failed."""
        return self._check if isinstance(self._check, Check) else None

    def row(self, name: str) -> Row:
        """Return the row of one limit; the first call measures.

        Raises:
            EdgeGPTError: the file cannot be measured; the same error at each call.
        """
        self.check_name(name)
        if self._check is None:
            try:
                self._check = check_file(
                    self.model, self.budget, seconds=self._seconds, option=_OPTION, before=self.machine
                )
            except EdgeGPTError as e:
                self._check = e
        if isinstance(self._check, EdgeGPTError):
            raise self._check
        return next(row for row in self._check.rows if row.name == name)

    def broken(self, row: Row) -> str:
        """Return the message of a failing test."""
        noise = self.checked.noise if self.checked else ()
        return (
            f"{self.model.name} breaks the budget {self.budget.name!r}: {sentence(row)}{doubt([row], noise)}"
        )

    def check_name(self, name: str) -> None:
        """Raise BudgetError where the budget has no limit of this name."""
        if name not in self.limits:
            raise BudgetError(
                f"the budget {self.budget.name!r} has no limit {name!r}{nearest(name, list(self.limits))}"
            )

    def has_marked(self, name: object) -> bool:
        """Return whether the budget has this limit; raises BudgetError where no budget can have it."""
        if name not in (names := limit_names()):
            raise BudgetError(f"there is no limit {name!r}{nearest(name, names)}")
        return name in self.limits

    def for_test(self, node: pytest.Item) -> "BudgetFixture":
        """Return the fixture of one test."""
        return BudgetFixture(self, node)


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn an error of edgegpt's, which is one sentence, into a failure without a traceback."""
    try:
        yield
    except EdgeGPTError as e:
        raise pytest.fail.Exception(str(e), pytrace=False) from None


@dataclass(frozen=True)
class BudgetFixture:
    """Fixture `edgegpt_budget`, for tests that are written by hand."""

    _session: BudgetSession
    _node: pytest.Item

    @property
    def model(self) -> Path:
        """The .onnx file, for `edgegpt.load`."""
        return self._session.model

    @property
    def budget(self) -> Budget:
        """The limits, `budget.threads` among them."""
        return self._session.budget

    def limit(self, name: str) -> float:
        """Return one limit, such as `token_ms.p99`; the test fails if the budget does not have it."""
        with one_sentence():
            self._session.check_name(name)
        return self._session.limits[name]

    def measured(self, name: str) -> Row:
        """Return the figure and the verdict for one limit; the first call measures for all tests."""
        with one_sentence():
            return self._session.row(name)

    def hold(self, name: str, samples: float | Iterable[float] | None = None) -> Row:
        """Return the row of a limit; fail the test if it is broken, skip it if it was not measured.

        Args:
            name: name of the limit, such as `ttft_ms.p50`.
            samples: the test's own samples in the limit's unit: one exact number, or several:
                `.p50` and `.p99` take that percentile with its interval, `.max` the largest, `accuracy`
                the mean (right is 1, wrong 0) and every other limit the median, which needs six samples;
                None takes the plugin's measurement.
        """
        if samples is None:
            row = self.measured(name)
        else:
            with one_sentence():
                limits, figures = {name: self.limit(name)}, {name: estimate_samples(name, samples)}
                (row,) = rows(limits, figures, of_board=board_limits(self.budget))
        self._node.user_properties += row_properties(row)
        skip_unmeasured(row)
        if row.verdict is Verdict.BROKEN:
            pytest.fail(self._session.broken(row), pytrace=False)
        return row


def skip_unmeasured(row: Row) -> None:
    """Skip the test of a limit that was not measured."""
    if row.verdict is Verdict.NOT_MEASURED:
        pytest.skip(f"this system does not report {row.name}")


def row_properties(row: Row) -> list[tuple[str, object]]:
    """Return the numbers of a row for JUnit."""
    estimate = row.estimate
    numbers = (
        []
        if estimate is None
        else [("measured", estimate.value), ("low", estimate.low), ("high", estimate.high)]
    )
    return [
        (f"edgegpt.{row.name}.{key}", value)
        for key, value in [("limit", row.limit), *numbers, ("verdict", row.verdict.value)]
    ]
