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
    yield table(
        "Checks",
        ["check", "measured", "limit", "", "what it is"],
        [
            [check.name, f"{check.value:.3g}", f"{check.limit:.3g}", _ok(not check.failures()), check.detail]
            for check in evidence.checks
        ],
    )


def _ok(passed: bool) -> str:
    return "ok" if passed else "FAILED"
