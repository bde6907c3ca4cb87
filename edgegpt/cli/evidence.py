"""The evidence of a verification as tables."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.table import Table

from edgegpt.cli.output import table

if TYPE_CHECKING:
    from edgegpt_export.evidence import Evidence


def evidence_tables(evidence: "Evidence") -> Iterator[Table]:
    """One table of prompt lengths and one of the checks."""
    limits = evidence.limits
    yield table(
        f"PyTorch against the file ({evidence.target}, {evidence.precision})",
        ["length", "max abs difference", "KL divergence", "top-1 agreement", ""],
        [
            [
                str(row.length),
                f"{row.max_abs:.2e}",
                f"{row.kl:.2e}",
                f"{row.top1:.2%}",
                _ok(not row.failures(limits)),
            ]
            for row in evidence.rows
        ]
        + [["limit", _limit(limits.max_abs), f"{limits.kl:.2e}", f"{limits.top1:.2%}", ""]],
        total=True,
    )
    checks = table("Checks", ["check", "measured", "limit", ""], [])
    checks.add_column("what is measured", overflow="fold")
    for check in evidence.checks:
        passed = _ok(not check.failures())
        checks.add_row(check.name, f"{check.value:.3g}", f"{check.limit:.3g}", passed, check.detail)
    yield checks


def evidence_sentence(evidence: "Evidence") -> str:
    """The numbers of a verification that found nothing wrong, in one sentence."""
    rows = evidence.rows
    lengths = ", ".join(str(row.length) for row in rows)
    if evidence.limits.max_abs is None:
        difference = f"KL divergence from PyTorch {max(row.kl for row in rows):.1e} nats"
    else:
        difference = f"max abs difference from PyTorch {max(row.max_abs for row in rows):.1e}"
    agreed = sum(row.top1 * row.length for row in rows) / sum(row.length for row in rows)
    checks = ", ".join(f"{check.name} {check.value:.2g}" for check in evidence.checks)
    return f"{difference}, top-1 agreement {100 * agreed:.4g}% at lengths {lengths}; {checks}"


def _limit(value: float | None) -> str:
    return "-" if value is None else f"{value:.2e}"


def _ok(passed: bool) -> str:
    return "ok" if passed else "FAILED"
