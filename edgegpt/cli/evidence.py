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
        + [["limit", f"{limits.max_abs:.2e}", f"{limits.kl:.2e}", f"{limits.top1:.2%}", ""]],
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
    checks = ", ".join(f"{check.name} {check.value:.2g}" for check in evidence.checks)
    return (
        f"max abs difference from PyTorch {max(row.max_abs for row in rows):.1e}, "
        f"top-1 agreement {min(row.top1 for row in rows):.0%} at lengths {lengths}; {checks}"
    )


def _ok(passed: bool) -> str:
    return "ok" if passed else "FAILED"
