"""The commands that reproduce a report, to be run in the file's folder."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edgegpt.budget import SecondsOption
from edgegpt.measure import Machine
from edgegpt.report.facts import Facts

# `edgegpt check` measures 2.5 s in each process where `edgegpt bench` measures 10 s in all, and takes no 0.
_CHECK_SHARE: Final = 0.25
_LEAST_CHECK_SECONDS: Final = 0.01
CHECK_OPTION: Final = SecondsOption(share=_CHECK_SHARE)


@dataclass(frozen=True)
class Command:
    """A command line and its purpose."""

    what: str
    line: str


@dataclass(frozen=True)
class Options:
    """The options of `edgegpt report`."""

    out: Path
    budget: Path | None
    profile: Path | None
    threads: int
    seconds: float

    @property
    def check_seconds(self) -> float:
        """Measuring time of each process that checks the budget."""
        return max(_LEAST_CHECK_SECONDS, _CHECK_SHARE * self.seconds)


def commands(facts: Facts, options: Options, machine: Machine) -> tuple[Command, ...]:
    """Return the commands from checking the download to making this page."""
    file, measured = shlex.quote(facts.name), f"--threads {options.threads} --seconds {options.seconds:g}"
    versions = machine.versions
    made = [
        Command(
            "Install the same runtime (edgegpt itself comes from its repository)",
            f"pip install onnxruntime=={versions['onnxruntime']} numpy=={versions['numpy']}",
        ),
        Command("Check the checksums of the download", _checksums(facts)),
        Command("Show shape, precision and origin", f"edgegpt info {file}"),
        Command(
            "Repeat the verification against PyTorch, with the checkpoint of the export",
            f"edgegpt verify {file} --checkpoint CHECKPOINT",
        ),
        Command("Measure times, memory and bandwidth", f"edgegpt bench {file} {measured}"),
    ]
    page = f"edgegpt report {file} --out {shlex.quote(options.out.name)} {measured}"
    if options.budget is not None:
        budget = f" --budget {shlex.quote(options.budget.name)}"
        checked = f"--threads {options.threads} --seconds {options.check_seconds:g}"
        made.append(Command("Check the budget", f"edgegpt check {file}{budget} {checked}"))
        page += budget
    if options.profile is not None:
        page += f" --profile {shlex.quote(options.profile.name)}"
    return (*made, Command("Make this page", page))


def _checksums(facts: Facts) -> str:
    sums = [f"{facts.sha256}  {facts.name}"]
    if facts.data_file is not None:
        sums.append(f"{facts.data_sha256}  {facts.data_file}")
    return "\n".join(f"echo {shlex.quote(line)} | sha256sum --check" for line in sums)
