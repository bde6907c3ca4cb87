"""Measure a file at every number of threads that this process may use, choose, and keep the choice."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edgegpt.autotune.choose import Choice, PairedComparison, choose
from edgegpt.measure import Machine, Progress, measured_noise, run_child, this_machine
from edgegpt.runtime import file_identity, tuning

SECONDS: Final = 3.0
_EVERY: Final = 8  # up to so many threads every number is tried


@dataclass(frozen=True)
class Autotuned:
    """What was measured of a file and what follows.

    Attributes:
        path: of the file.
        machine: before the first process started.
        duels: by threads, those that spin last.
        choice: what follows.
        kept: where the tuning lies.
        noise: why the times are not to be trusted; empty on a quiet machine.
    """

    path: str
    machine: Machine
    duels: tuple[PairedComparison, ...]
    choice: Choice
    kept: Path
    noise: tuple[str, ...]


def autotune(
    path: str | Path,
    *,
    allow_spinning: bool = False,
    seconds: float = SECONDS,
    on_progress: Progress | None = None,
) -> Autotuned:
    """Measure a file, each way to run it in a fresh process, and keep the tuning for `edgegpt.load`.

    Args:
        path: an .onnx file made by `edgegpt export`.
        allow_spinning: whether threads may keep their cores busy while they wait.
        seconds: measuring time of each way; a slow model takes what it needs.
        on_progress: called with the share that is done, from 0 to 1.

    Raises:
        ArtifactError: as `edgegpt.load`.
        MeasureError: there is no cache folder that can be written, the context is too short, or a
            process failed.
    """
    identity = file_identity(path)
    tuning.make_folder(identity)  # before a minute of measuring, not after it
    before = this_machine()
    counts = thread_counts(before.available_cores)
    ways = [(threads, False) for threads in counts]
    ways += [(threads, True) for threads in counts if allow_spinning and threads > 1]
    duels = []
    for i, (threads, spinning) in enumerate(ways):
        job = {"path": str(path), "threads": threads, "spinning": spinning, "seconds": seconds}
        progress = _part(on_progress, i, len(ways))
        duels.append(
            PairedComparison.model_validate(run_child("edgegpt.autotune.child", job, on_progress=progress))
        )
    choice = choose(duels)
    return Autotuned(
        path=str(path),
        machine=before,
        duels=tuple(duels),
        choice=choice,
        kept=tuning.keep(identity, choice.tuning),
        noise=measured_noise(duels, before, counts[-1]),
    )


def thread_counts(cores: int) -> list[int]:
    """Numbers of threads worth trying: all of few, and two in each doubling of many."""
    return [n for n in range(1, cores + 1) if n <= _EVERY or n % 2 ** (n.bit_length() - 2) == 0 or n == cores]


def _part(on_progress: Progress | None, i: int, n: int) -> Progress | None:
    if on_progress is None:
        return None
    return lambda share: on_progress((i + share) / n)
