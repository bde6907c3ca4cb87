"""Compare every number of threads that this process may use with one, choose, and store the choice."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edgegpt.autotune.choose import Choice, PairedComparison, choose
from edgegpt.measure import Machine, Progress, measured_noise, run_child, this_machine
from edgegpt.runtime import file_identity, tuning

SECONDS: Final = 3.0
_EVERY: Final = 8  # threads up to which every number is tried


@dataclass(frozen=True)
class Autotuned:
    """Measurements of a file, and the settings chosen from them.

    Attributes:
        path: the .onnx file.
        machine: the machine before the first process started.
        comparisons: one per setting, by threads; spinning ones last.
        choice: threads and prefill chunk.
        kept: the file in which the tuning is stored.
        noise: reasons to doubt the choice (edgegpt.measure.noise); empty on a quiet machine, and where there
            was nothing to choose from.
    """

    path: str
    machine: Machine
    comparisons: tuple[PairedComparison, ...]
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
    """Measure each setting of a file in a fresh process, and store the choice for `edgegpt.load`.

    Args:
        path: an .onnx file made by `edgegpt export`.
        allow_spinning: whether threads may keep their cores busy while they wait.
        seconds: measuring time of each setting; a slow model takes longer.
        on_progress: called with the share that is done, from 0 to 1.

    Raises:
        ArtifactError: as `edgegpt.load`.
        MeasureError: the cache folder cannot be written, the context is too short, or a
            process failed.
    """
    identity = file_identity(path)
    tuning.make_folder(identity)  # before a minute of measuring, not after it
    before = this_machine()
    counts = thread_counts(before.available_cores)
    settings = [(threads, False) for threads in counts]
    settings += [(threads, True) for threads in counts if allow_spinning and threads > 1]
    comparisons = []
    for i, (threads, spinning) in enumerate(settings):
        job = {"path": str(path), "threads": threads, "spinning": spinning, "seconds": seconds}
        progress = _part(on_progress, i, len(settings))
        comparisons.append(run_child("edgegpt.autotune.child", job, PairedComparison, on_progress=progress))
    choice = choose(comparisons)
    return Autotuned(
        path=str(path),
        machine=before,
        comparisons=tuple(comparisons),
        choice=choice,
        kept=tuning.keep(identity, choice.tuning),
        noise=measured_noise(comparisons, before, counts[-1]) if len(comparisons) > 1 else (),
    )


def thread_counts(cores: int) -> list[int]:
    """Return the numbers of threads to try: all up to 8, and two in each doubling above."""
    return [n for n in range(1, cores + 1) if n <= _EVERY or n % 2 ** (n.bit_length() - 2) == 0 or n == cores]


def _part(on_progress: Progress | None, i: int, n: int) -> Progress | None:
    if on_progress is None:
        return None
    return lambda share: on_progress((i + share) / n)
