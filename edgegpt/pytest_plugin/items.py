"""The budget file as tests: one for each limit, and parity, causality and determinism of the file."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from edgegpt.budget import HEADER, Verdict, cells, remarks
from edgegpt.errors import BudgetError, EdgeGPTError, VerificationError, needs
from edgegpt.measure import threads_text, versions_text
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
    """Hooks that are registered only when the options are given."""

    def __init__(self, session: BudgetSession) -> None:
        self._session = session

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """Collect the budget file, and no other."""
        if file_path.name != self._session.path.name or not file_path.samefile(self._session.path):
            return None
        return BudgetFile.from_parent(parent, path=file_path, budget_session=self._session)

    @pytest.hookimpl(tryfirst=True)  # before -k and -m choose
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Add all tests of the budget, unless the arguments name it: by its path, or by a node id."""
        if not any(isinstance(item, _BudgetItem) for item in items):
            items.extend(
                session.genitems(
                    BudgetFile.from_parent(session, path=self._session.path, budget_session=self._session)
                )
            )

    def pytest_report_header(self) -> list[str]:
        """Return the file, the budget and the machine."""
        session, machine = self._session, self._session.machine
        threads = threads_text(session.budget.threads)
        load = "unknown" if machine.load is None else f"{machine.load:.2f}"
        versions = versions_text(machine.versions)
        return [
            f"edgegpt: {session.model} against {session.budget.name}, {threads}",
            f"edgegpt: {machine.board or machine.cpu}, {machine.available_cores} of {machine.cores} cores, "
            f"load {load}, {machine.system}; {versions}",
        ]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the table of limits, if they were measured."""
        checked = self._session.checked
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

    def __init__(self, *, budget_session: BudgetSession, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.budget_session = budget_session

    def collect(self) -> Iterator[pytest.Item]:
        """Return one test for each limit, and those of the file itself."""
        for name in self.budget_session.limits:
            yield LimitItem.from_parent(self, name=name)
        for name in FILE_CHECKS:
            yield FileItem.from_parent(self, name=name)


class _BudgetItem(pytest.Item):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        assert isinstance(self.parent, BudgetFile)
        self.budget_session = self.parent.budget_session
        self.add_marker("edgegpt_budget")
        machine = self.budget_session.machine
        self.user_properties += [
            ("edgegpt.file", str(self.budget_session.model)),
            ("edgegpt.budget", self.budget_session.budget.name),
            ("edgegpt.threads", self.budget_session.budget.threads),
            ("edgegpt.machine", machine.board or machine.cpu),
            *((f"edgegpt.version.{name}", version) for name, version in machine.versions.items()),
        ]

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return where a failure is located."""
        return self.path, None, f"{self.budget_session.budget.name}: {self.name}"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return an error of edgegpt's, which is one sentence, without a traceback."""
        if isinstance(excinfo.value, EdgeGPTError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)


class LimitItem(_BudgetItem):
    """One limit of the budget."""

    def runtest(self) -> None:
        """Judge the limit; the first one measures for all of them."""
        row = self.budget_session.row(self.name)
        self.user_properties += row_properties(row)
        skip_unmeasured(row)
        if row.verdict is Verdict.BROKEN:
            raise BudgetError(self.budget_session.broken(row))


class FileItem(_BudgetItem):
    """One property that the file must have with any budget."""

    def runtest(self) -> None:
        """Check it; raises VerificationError with the numbers."""
        result = FILE_CHECKS[self.name](self.budget_session)
        self.user_properties.append((f"edgegpt.{self.name}", result))


def _parity(session: BudgetSession) -> str:
    """Check the stored result, PyTorch itself if there is a checkpoint, then prompts token by token."""
    artifact = _open(session)
    evidence = read_evidence(artifact)
    if evidence.failures:
        raise VerificationError(
            f"{session.model.name} exceeded its limits when it was exported: {'; '.join(evidence.failures)}"
        )
    if session.checkpoint is not None:
        _verify(session.model, session.checkpoint)
    by_kl, limit = evidence.limits.by_kl, evidence.limits.consistency
    difference = stepwise(Engine.from_artifact(artifact), by_kl=by_kl)
    if not difference <= limit:
        raise VerificationError(
            f"{session.model.name} reads a prompt token by token and whole with a difference of "
            f"{difference:.3g} {'nats' if by_kl else 'in a logit'}, the limit is {limit:g}"
        )
    return f"{evidence.summary()}; here, stepwise = whole within {difference:.2g}"


def _causality(session: BudgetSession) -> str:
    artifact = _open(session)
    moved = causality(Engine.from_artifact(artifact))
    limits = read_evidence(artifact).limits if artifact.evidence.get("rows") else LIMITS["fp32"]
    allowed = limits.causality
    if not moved <= allowed:
        raise VerificationError(
            f"{session.model.name} is not causal: changing later tokens moved the loss of an earlier one by "
            f"{moved:.3g} nats, the limit is {allowed:g}"
        )
    return f"earlier losses moved by {moved:.2g} nats"


def _determinism(session: BudgetSession) -> str:
    different = differing_tokens(lambda: Engine.from_artifact(_open(session)))
    if different:
        raise VerificationError(
            f"{session.model.name} is not deterministic: {different} tokens of the same requests, with the "
            "same seed, differed between two sessions"
        )
    return "the same tokens from two sessions, greedy and with a seed"


def _verify(model: Path, checkpoint: Path) -> None:
    with needs("export"):
        from edgegpt_export import verify_file

    if failures := verify_file(model, checkpoint).failures:
        raise VerificationError(f"{model.name} does not match {checkpoint}: {'; '.join(failures)}")


def _open(session: BudgetSession) -> Artifact:
    return open_artifact(session.model, threads=session.budget.threads)


FILE_CHECKS: Final[dict[str, Callable[[BudgetSession], str]]] = {
    "parity": _parity,
    "causality": _causality,
    "determinism": _determinism,
}
