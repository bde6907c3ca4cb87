"""How somebody else does it again: the exact commands, in the file's folder."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edgegpt.measure.machine import Machine
from edgegpt.report.facts import Facts

# Of the measuring time: `edgegpt check` has 2.5 s in each process where `edgegpt bench` has 10 s in all.
CHECK_SHARE: Final = 0.25


@dataclass(frozen=True)
class Command:
    """A command line and what it is for."""

    what: str
    line: str


@dataclass(frozen=True)
class Options:
    """With which options the report was asked for."""

    out: Path
    budget: Path | None
    threads: int
    seconds: float


def commands(facts: Facts, options: Options, machine: Machine) -> tuple[Command, ...]:
    """From checking the download to this very page."""
    file, measured = facts.name, f"--threads {options.threads} --seconds {options.seconds:g}"
    versions = machine.versions
    made = [
        Command(
            "The same runtime (edgegpt itself from its repository)",
            f"pip install onnxruntime=={versions['onnxruntime']} numpy=={versions['numpy']}",
        ),
        Command("The file is this one", _checksum(facts)),
        Command("What the file says of itself", _line("edgegpt", "info", file)),
        Command(
            "The proof against PyTorch once more, with the checkpoint it was exported from",
            f"{_line('edgegpt', 'verify', file)} --checkpoint CHECKPOINT",
        ),
        Command("Times, memory and bandwidth alone", f"{_line('edgegpt', 'bench', file)} {measured}"),
    ]
    page = f"{_line('edgegpt', 'report', file)} --out {shlex.quote(options.out.name)} {measured}"
    if options.budget is not None:
        budget = f" --budget {shlex.quote(options.budget.name)}"
        held = f"{_line('edgegpt', 'check', file)}{budget} --threads {options.threads}"
        held += f" --seconds {CHECK_SHARE * options.seconds:g}"
        made.append(Command("The budget alone", held))
        page += budget
    return (*made, Command("This page", page))


def _checksum(facts: Facts) -> str:
    sums = [(facts.sha256, facts.name)]
    if facts.data_file is not None and facts.data_sha256 is not None:
        sums.append((facts.data_sha256, facts.data_file))
    return "\n".join(
        f"printf '%s\\n' {shlex.quote(f'{sha}  {name}')} | sha256sum --check" for sha, name in sums
    )


def _line(*words: str) -> str:
    return shlex.join(words)
