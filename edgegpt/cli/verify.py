"""`edgegpt verify FILE.onnx --checkpoint CHECKPOINT`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from edgegpt.cli.output import FileArgument, JsonOption, print_json, stdout, steps, table
from edgegpt.errors import VerificationError, needs

if TYPE_CHECKING:
    from edgegpt.runtime import Evidence


def verify(
    file: FileArgument,
    checkpoint: Annotated[Path, typer.Option(metavar="CHECKPOINT", help="The folder it was exported from.")],
    data: Annotated[
        Path | None, typer.Option(metavar="DATA.jsonl", help="Examples to compare the file's answers by.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare a file with the PyTorch model: parity, causality, cache, batch, weights."""
    with needs("export"):
        from edgegpt_export import verify_file

    with steps("loading") as on_step:
        evidence = verify_file(file, checkpoint, on_step, data)
    if as_json:
        print_json(json.loads(evidence.to_json()))
    else:
        for part in evidence_tables(evidence):
            stdout.print(part)
    if evidence.failures:
        raise VerificationError(f"{file} fails verification: " + "; ".join(evidence.failures))


def evidence_tables(evidence: "Evidence") -> Iterator[Table]:
    """Yield a table of parity at each prompt length, and a table of the checks."""
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
        checks.add_row(check.name, f"{check.value:.3g}", f"{check.limit:.3g}", _ok(check.passed), check.what)
    yield checks


def _limit(value: float | None) -> str:
    return "-" if value is None else f"{value:.2e}"


def _ok(passed: bool) -> str:
    return "ok" if passed else "FAILED"
