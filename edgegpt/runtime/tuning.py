"""The stored tuning of a file: threads, spinning and prompt chunk that run it fastest on this machine.

`edgegpt tune` measures it and `edgegpt.load` looks it up. It is stored in the user's cache folder, one
small JSON file per model file and machine, and never in the artifact, since each board has its own.

Every process that loads a file imports this module, and few have a tuning: what only those need is imported
where it is used (importlib.metadata takes 3 MB, logging and edgegpt.files 1 MB each).
"""

import json
import os
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from edgegpt.errors import EngineError, MeasureError, first_line, whole_number
from edgegpt.system import allowed_cpus, available_cores, cgroup_quota, cpu_name

# A longer prompt is read in chunks of this many tokens: a request can end between two of them, and the
# memory of a call stays small.
PREFILL_CHUNK: Final = 64

_LARGEST: Final = 10_000  # bytes that are read of such a file


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Settings with which a file is run; a value outside its range raises EngineError.

    Attributes:
        decode_threads: number of onnxruntime threads for decode steps.
        prefill_threads: number for prompts; where the two differ, the file is opened twice.
        spinning: whether waiting threads keep their cores busy, which saves the time to wake them.
        prefill_chunk: tokens of a prompt that are read in one call.
    """

    decode_threads: int
    prefill_threads: int
    spinning: bool
    prefill_chunk: int

    def __post_init__(self) -> None:
        for name in ("decode_threads", "prefill_threads", "prefill_chunk"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), EngineError, least=1))
        if not isinstance(self.spinning, bool):
            raise EngineError(f"spinning must be true or false, got {self.spinning!r}")

    @classmethod
    def of_threads(cls, threads: int) -> "Tuning":
        """Return the tuning with this number of threads for everything; waiting ones sleep."""
        return cls(
            decode_threads=threads, prefill_threads=threads, spinning=False, prefill_chunk=PREFILL_CHUNK
        )

    def __str__(self) -> str:
        """Return it as `1 thread to decode, 2 for prompts, prompts in chunks of 64 tokens, no spinning`."""
        decode = f"{self.decode_threads} {'thread' if self.decode_threads == 1 else 'threads'}"
        if self.prefill_threads != self.decode_threads:
            decode += f" to decode, {self.prefill_threads} for prompts"
        spinning = "spinning" if self.spinning else "no spinning"
        return f"{decode}, prompts in chunks of {self.prefill_chunk} tokens, {spinning}"


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """Machine and versions that a tuning was measured with; it is used only where all of them are equal.

    Attributes:
        cpu: the processor's name.
        cpus: numbers of the cores that the process may run on.
        quota: CPU time that its control group grants, in cores; None is unlimited.
        onnxruntime: version of the package.
        edgegpt: version of the package.
    """

    cpu: str
    cpus: tuple[int, ...]
    quota: float | None
    onnxruntime: str
    edgegpt: str


def fingerprint() -> Fingerprint:
    """Return the fingerprint of this process on this machine."""
    return Fingerprint(
        cpu=cpu_name(),
        cpus=allowed_cpus(),
        quota=cgroup_quota(),
        onnxruntime=_version("onnxruntime"),
        edgegpt=_version("edgegpt-robot"),
    )


def find(file_sha256: str) -> Tuning | None:
    """Return the tuning of a file on this machine, None without one.

    It raises nothing: a tuning that cannot be read, or that is not for this file and machine, is logged
    as a warning, once per process, and not used.
    """
    root = _root()
    if root is None:
        return None
    folder = root / file_sha256
    try:
        if not folder.is_dir():  # the usual case costs no more than this
            return None
        machine = fingerprint()
        path = folder / _name(machine)
        if not path.is_file():
            return None
        tuning = _read(path, file_sha256, machine)
    except (OSError, ValueError, LookupError, TypeError, RecursionError, EngineError) as e:
        _warn(f"the tuning in {folder} is not used ({first_line(e)}); run `edgegpt tune` again, or remove it")
        return None
    return tuning


def _read(path: Path, file_sha256: str, machine: Fingerprint) -> Tuning:
    with path.open("rb") as file:
        kept = json.loads(file.read(_LARGEST))
    tuning = Tuning(**kept["tuning"])
    if kept["file_sha256"] != file_sha256 or kept["machine"] != _plain(machine):
        raise ValueError("it was made for another file or machine")
    cores = available_cores(len(machine.cpus), machine.quota)
    if (threads := max(tuning.decode_threads, tuning.prefill_threads)) > cores:
        raise ValueError(f"it has {threads} threads where {cores} can run")
    return tuning


def keep(file_sha256: str, tuning: Tuning) -> Path:
    """Store the tuning of a file on this machine, in place of an older one.

    Returns:
        path of the stored file.

    Raises:
        MeasureError: there is no cache folder, or it cannot be written.
    """
    from edgegpt.files import write_text

    folder, machine = make_folder(file_sha256), fingerprint()
    kept = {"file_sha256": file_sha256, "machine": _plain(machine), "tuning": asdict(tuning)}
    path = folder / _name(machine)
    try:
        write_text(path, json.dumps(kept, indent=2) + "\n")
    except OSError as e:
        raise MeasureError(_unwritable(folder, e)) from e
    return path


def make_folder(file_sha256: str) -> Path:
    """Return the folder of a file's tunings, created if missing; raises as `keep`."""
    root = _root()
    if root is None:
        raise MeasureError(
            "a tuning is stored in the user's cache folder, and this user has no home; set XDG_CACHE_HOME "
            "to a folder that can be written"
        )
    folder = root / file_sha256
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise MeasureError(_unwritable(folder, e)) from e
    if not os.access(folder, os.W_OK | os.X_OK):
        raise MeasureError(_unwritable(folder, PermissionError(13, "permission denied")))
    return folder


def _root() -> Path | None:
    """Return the cache folder by the XDG base directory specification, which ignores relative paths."""
    for base in (os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache")):  # noqa: PTH111
        if os.path.isabs(base):  # noqa: PTH117
            return Path(base) / "edgegpt" / "tuning"
    return None


def _plain(machine: Fingerprint) -> dict[str, Any]:
    """Return the fingerprint in the types that JSON reads back."""
    return {**asdict(machine), "cpus": list(machine.cpus)}


def _name(machine: Fingerprint) -> str:
    from hashlib import sha256

    return f"{sha256(json.dumps(_plain(machine)).encode()).hexdigest()[:16]}.json"


def _unwritable(folder: Path, error: OSError) -> str:
    return (
        f"the tuning cannot be stored in {folder}: {error.strerror or error}; set XDG_CACHE_HOME to a folder "
        "that can be written"
    )


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package) or "unknown"  # None where the package's metadata is damaged
    except PackageNotFoundError:  # run from a folder that is not installed
        return "unknown"


@cache
def _warn(sentence: str) -> None:
    """Log a warning once per process, so that a node that loads repeatedly does not fill its log."""
    import logging

    logging.getLogger(__name__).warning(sentence)
