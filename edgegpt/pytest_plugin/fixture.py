"""One file and one budget in a pytest run: measured once, by whoever asks first."""

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
    held_limits,
    limit_names,
    of_samples,
    rows,
    sentence,
)
from edgegpt.config import nearest
from edgegpt.errors import BudgetError, EdgeGPTError
from edgegpt.measure import Machine, this_machine
from edgegpt.runtime import file_identity

_OPTION: Final = SecondsOption("--edgegpt-seconds")


class BudgetSession:
    """What the options name.

    Attributes:
        model: the .onnx file.
        path: of the budget file.
        budget: what it says.
        limits: all that the file is held to, by name: the budget's, and its board's memory.
        checkpoint: what the file was exported from, where it was given.
        machine: before anything was measured.
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
        """From pytest's options, relative to where it was started; raises pytest.UsageError."""
        folder = config.invocation_params.dir
        checkpoint, seconds = config.getoption("--edgegpt-checkpoint"), config.getoption("--edgegpt-seconds")
        model = folder / config.getoption("--edgegpt-model")
        checkpoint = None if checkpoint is None else folder / checkpoint
        try:
            if not model.is_file():
                raise pytest.UsageError(f"--edgegpt-model: {model} is no file")
            if checkpoint is not None and not checkpoint.is_dir():
                raise pytest.UsageError(f"--edgegpt-checkpoint: {checkpoint} is no folder")
            file_identity(model)  # what is no model is one mistake in the options and not one in each test
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
        """What was measured; None until it was, and where it could not be."""
        return self._check if isinstance(self._check, Check) else None

    def row(self, name: str) -> Row:
        """The row of one limit; measures at the first call.

        Raises:
            EdgeGPTError: the file cannot be measured; the same one at each call.
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
        """What a failing test says."""
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
        """Whether the budget has this limit; raises BudgetError where no budget can have it."""
        if name not in (names := limit_names()):
            raise BudgetError(f"there is no limit {name!r}{nearest(name, names)}")
        return name in self.limits

    def for_test(self, node: pytest.Item) -> "BudgetFixture":
        """What the fixture gives to a test."""
        return BudgetFixture(self, node)


@contextmanager
def one_sentence() -> Iterator[None]:
    """Our errors are sentences; a traceback through edgegpt would say nothing more."""
    try:
        yield
    except EdgeGPTError as e:
        raise pytest.fail.Exception(str(e), pytrace=False) from None


@dataclass(frozen=True)
class BudgetFixture:
    """The fixture `edgegpt_budget`: what a test written by hand holds to the budget."""

    _held: BudgetSession
    _node: pytest.Item

    @property
    def model(self) -> Path:
        """The .onnx file, for `edgegpt.load`."""
        return self._held.model

    @property
    def budget(self) -> Budget:
        """The limits, `budget.threads` among them."""
        return self._held.budget

    def limit(self, name: str) -> float:
        """One limit, as `token_ms.p99`; the test fails where the budget does not have it."""
        with one_sentence():
            self._held.check_name(name)
        return self._held.limits[name]

    def measured(self, name: str) -> Row:
        """What was measured for one limit, and the verdict; the first call measures for all tests."""
        with one_sentence():
            return self._held.row(name)

    def hold(self, name: str, samples: float | Iterable[float] | None = None) -> Row:
        """Fail the test when a limit is broken, skip it where this system does not tell; JUnit gets the row.

        Args:
            name: of the limit, as `ttft_ms.p50`.
            samples: what the test has measured itself, in the limit's unit: one exact number, or samples
                of which `.p50` and `.p99` take that percentile with its interval, `.max` the largest,
                `accuracy` the mean (right is 1, wrong 0) and every other limit the median, which takes
                six samples; None is what the plugin measures.
        """
        if samples is None:
            row = self.measured(name)
        else:
            with one_sentence():
                limits, figures = {name: self.limit(name)}, {name: of_samples(name, samples)}
                (row,) = rows(limits, figures, of_board=board_limits(self.budget))
        self._node.user_properties += row_properties(row)
        skip_unmeasured(row)
        if row.verdict is Verdict.BROKEN:
            pytest.fail(self._held.broken(row), pytrace=False)
        return row


def skip_unmeasured(row: Row) -> None:
    """Skip the test of a limit that was not measured: it says nothing."""
    if row.verdict is Verdict.NOT_MEASURED:
        pytest.skip(f"this system does not tell {row.name}")


def row_properties(row: Row) -> list[tuple[str, object]]:
    """For JUnit: the numbers of a row."""
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
