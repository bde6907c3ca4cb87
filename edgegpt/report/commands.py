"""How somebody else does it again: the exact commands, in the file's folder."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edgegpt.budget import SecondsOption
from edgegpt.measure import Machine
from edgegpt.report.facts import Facts

# Of the measuring time: `edgegpt check` has 2.5 s in each process where `edgegpt bench` has 10 s in all,
# and takes no 0.
_CHECK_SHARE: Final = 0.25
_LEAST_CHECK_SECONDS: Final = 0.01
CHECK_OPTION: Final = SecondsOption(share=_CHECK_SHARE)


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
    target: Path | None
    threads: int
    seconds: float

    @property
    def check_seconds(self) -> float:
        """Of each process that holds the file to the budget."""
        return max(_LEAST_CHECK_SECONDS, _CHECK_SHARE * self.seconds)


def commands(facts: Facts, options: Options, machine: Machine) -> tuple[Command, ...]:
    """From checking the download to this very page."""
    file, measured = _argument(facts.name), f"--threads {options.threads} --seconds {options.seconds:g}"
    versions = machine.versions
    made = [
        Command(
            "The same runtime (edgegpt itself from its repository)",
            f"pip install onnxruntime=={versions['onnxruntime']} numpy=={versions['numpy']}",
        ),
        Command("The file is this one", _checksum(facts)),
        Command("What the file says of itself", f"edgegpt info {file}"),
        Command(
            "The proof against PyTorch once more, with the checkpoint it was exported from",
            f"edgegpt verify {file} --checkpoint CHECKPOINT",
        ),
        Command("Times, memory and bandwidth alone", f"edgegpt bench {file} {measured}"),
    ]
    page = f"edgegpt report {file} --out {_argument(options.out.name)} {measured}"
    if options.budget is not None:
        budget = f" --budget {_argument(options.budget.name)}"
        held = f"edgegpt check {file}{budget} --threads {options.threads} --seconds {options.check_seconds:g}"
        made.append(Command("The budget alone", held))
        page += budget
    if options.target is not None:
        page += f" --target {_argument(options.target.name)}"
    return (*made, Command("This page", page))


def _checksum(facts: Facts) -> str:
    sums = [(facts.sha256, facts.name)]
    if facts.data_file is not None and facts.data_sha256 is not None:
        sums.append((facts.data_sha256, facts.data_file))
    return "\n".join(
        f"printf '%s\\n' {shlex.quote(_sum(sha, name))} | sha256sum --check" for sha, name in sums
    )


def _sum(sha: str, name: str) -> str:
    """As sha256sum prints it: a leading backslash says that the name has escapes."""
    if not {"\\", "\n", "\r"} & set(name):
        return f"{sha}  {name}"
    escaped = name.replace("\\", r"\\").replace("\n", r"\n").replace("\r", r"\r")
    return rf"\{sha}  {escaped}"


def _argument(name: str) -> str:
    """Of a command line; one that begins with a dash would be an option."""
    return shlex.quote(f"./{name}" if name.startswith("-") else name)
