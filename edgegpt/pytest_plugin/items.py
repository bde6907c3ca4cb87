"""The budget file as a collection of tests: one a limit, and parity, causality and determinism."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from edgegpt.budget import HEADER, Verdict, cells, remarks, threads_text, versions_text
from edgegpt.errors import BudgetError, EdgeGPTError, VerificationError, needs
from edgegpt.pytest_plugin.fixture import BudgetSession, row_properties, skip_unmeasured
from edgegpt.runtime import (
    LIMITS,
    Artifact,
    Engine,
    causality,
    differing_tokens,
    open_artifact,
    read_evidence,
    stepwise,
)


class BudgetItems:
    """Hooks that are there only when the options are given."""

    def __init__(self, held: BudgetSession) -> None:
        self._held = held

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """The budget file, and no other."""
        if file_path.name != self._held.path.name or not file_path.samefile(self._held.path):
            return None
        return BudgetFile.from_parent(parent, path=file_path, held=self._held)

    @pytest.hookimpl(tryfirst=True)  # before -k and -m choose
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """All tests of the budget, unless some came from the arguments: its path, or one's node id."""
        if not any(isinstance(item, _BudgetItem) for item in items):
            items.extend(
                session.genitems(BudgetFile.from_parent(session, path=self._held.path, held=self._held))
            )

    def pytest_report_header(self) -> list[str]:
        """What is measured, on what."""
        held, machine = self._held, self._held.machine
        threads = threads_text(held.budget.threads)
        load = "unknown" if machine.load is None else f"{machine.load:.2f}"
        versions = versions_text(machine.versions)
        return [
            f"edgegpt: {held.model} against {held.budget.name}, {threads}",
            f"edgegpt: {machine.board or machine.cpu}, {machine.available_cores} of {machine.cores} cores, "
            f"load {load}, {machine.system}; {versions}",
        ]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The table of limits, where they were measured."""
        checked = self._held.checked
        if checked is None:
            return
        terminalreporter.section(f"{checked.path.name} against {checked.budget.name}")
        lines = (HEADER, *map(cells, checked.rows))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for name, *others in lines:
            padded = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
            terminalreporter.write_line("  ".join([name.ljust(widths[0]), *padded]))
        for remark in remarks(checked):
            terminalreporter.write_line(remark)


class BudgetFile(pytest.File):
    """The budget file of the options."""

    def __init__(self, *, held: BudgetSession, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.held = held

    def collect(self) -> Iterator[pytest.Item]:
        """One test a limit, and those of the file itself."""
        for name in self.held.limits:
            yield LimitItem.from_parent(self, name=name)
        for name in FILE_CHECKS:
            yield FileItem.from_parent(self, name=name)


class _BudgetItem(pytest.Item):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        assert isinstance(self.parent, BudgetFile)
        self.held = self.parent.held
        self.add_marker("edgegpt_budget")
        machine = self.held.machine
        self.user_properties += [
            ("edgegpt.file", str(self.held.model)),
            ("edgegpt.budget", self.held.budget.name),
            ("edgegpt.threads", self.held.budget.threads),
            ("edgegpt.machine", machine.board or machine.cpu),
            *((f"edgegpt.version.{name}", version) for name, version in machine.versions.items()),
        ]

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where a failure is said to be."""
        return self.path, None, f"{self.held.budget.name}: {self.name}"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Our errors are sentences; where they were raised says nothing more."""
        if isinstance(excinfo.value, EdgeGPTError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)


class LimitItem(_BudgetItem):
    """One limit of the budget."""

    def runtest(self) -> None:
        """Measures at the first limit, for all of them."""
        row = self.held.row(self.name)
        self.user_properties += row_properties(row)
        skip_unmeasured(row)
        if row.verdict is Verdict.BROKEN:
            raise BudgetError(self.held.broken(row))


class FileItem(_BudgetItem):
    """One thing that has to be true of the file, whatever the budget."""

    def runtest(self) -> None:
        """Raises VerificationError with the numbers."""
        result = FILE_CHECKS[self.name](self.held)
        self.user_properties.append((f"edgegpt.{self.name}", result))


def _parity(held: BudgetSession) -> str:
    """The stamped evidence and, where there is a checkpoint, PyTorch itself; then whole = step by step."""
    artifact = _open(held)
    evidence = read_evidence(artifact)
    if evidence.failures:
        raise VerificationError(
            f"{held.model.name} was exported outside its limits: {'; '.join(evidence.failures)}"
        )
    if held.checkpoint is not None:
        _verify(held.model, held.checkpoint)
    by_kl, limit = evidence.limits.by_kl, evidence.limits.consistency
    difference = stepwise(Engine.from_artifact(artifact), by_kl=by_kl)
    if not difference <= limit:
        raise VerificationError(
            f"{held.model.name} reads a prompt token by token and whole with a difference of "
            f"{difference:.3g} {'nats' if by_kl else 'in a logit'}, the limit is {limit:g}"
        )
    return f"{evidence.summary()}; here, stepwise = whole within {difference:.2g}"


def _causality(held: BudgetSession) -> str:
    artifact = _open(held)
    moved = causality(Engine.from_artifact(artifact))
    limits = read_evidence(artifact).limits if artifact.evidence.get("rows") else LIMITS["fp32"]
    allowed = limits.causality
    if not moved <= allowed:
        raise VerificationError(
            f"{held.model.name} is not causal: changing later tokens moved the loss of an earlier one by "
            f"{moved:.3g} nats, the limit is {allowed:g}"
        )
    return f"earlier losses moved by {moved:.2g} nats"


def _determinism(held: BudgetSession) -> str:
    different = differing_tokens(lambda: Engine.from_artifact(_open(held)))
    if different:
        raise VerificationError(
            f"{held.model.name} is not deterministic: {different} tokens of the same requests with the same "
            "seed differed between two sessions"
        )
    return "the same tokens from two sessions, greedy and with a seed"


def _verify(model: Path, checkpoint: Path) -> None:
    with needs("export"):
        from edgegpt_export import verify_file

    if failures := verify_file(model, checkpoint).failures:
        raise VerificationError(f"{model.name} fell short of {checkpoint}: {'; '.join(failures)}")


def _open(held: BudgetSession) -> Artifact:
    return open_artifact(held.model, threads=held.budget.threads)


FILE_CHECKS: Final[dict[str, Callable[[BudgetSession], str]]] = {
    "parity": _parity,
    "causality": _causality,
    "determinism": _determinism,
}
