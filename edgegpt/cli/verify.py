"""`edgegpt verify FILE.onnx --checkpoint CHECKPOINT`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from edgegpt.cli.evidence import evidence_tables
from edgegpt.cli.output import FileArgument, JsonOption, print_json, stdout
from edgegpt.cli.progress import steps
from edgegpt.errors import VerificationError, needs


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
        raise VerificationError(f"{file} fell short: " + "; ".join(evidence.failures))
