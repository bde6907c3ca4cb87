"""How a file runs best on this machine, and where that is kept.

`edgegpt tune` measures it and `edgegpt.load` looks it up. It lies in the user's cache folder, one small
JSON per file and machine, and never in the artifact: another board wants another.

Every process that loads a file loads this module, and few have a tuning: what only they need is imported
where it is used (importlib.metadata 3 MB, logging and atomic 1 MB each).
"""

import json
import os
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from edgegpt.errors import EngineError, MeasureError, first_line
from edgegpt.system import allowed_cpus, available_cores, cgroup_quota, cpu_name

# A longer prompt is read in pieces of this many tokens: work can stop between two of them, and what a
# piece needs in memory stays small.
PREFILL_CHUNK: Final = 64

_LARGEST: Final = 10_000  # bytes of such a file; what is larger is not ours


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """How a file is run; a value that cannot be is refused with EngineError.

    Attributes:
        decode_threads: of onnxruntime, for one token after another.
        prefill_threads: for the pieces of a prompt; where the number is another, the file is opened
            twice.
        spinning: whether threads that wait keep their cores busy, to be there at once.
        prefill_chunk: tokens of a prompt that are read in one call.
    """

    decode_threads: int
    prefill_threads: int
    spinning: bool
    prefill_chunk: int

    def __post_init__(self) -> None:
        for name in ("decode_threads", "prefill_threads", "prefill_chunk"):
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise EngineError(f"{name} must be a whole number of at least 1, got {count!r}")
        if not isinstance(self.spinning, bool):
            raise EngineError(f"spinning must be true or false, got {self.spinning!r}")

    @classmethod
    def of_threads(cls, threads: int) -> "Tuning":
        """So many threads that sleep while they wait, for everything."""
        return cls(
            decode_threads=threads, prefill_threads=threads, spinning=False, prefill_chunk=PREFILL_CHUNK
        )

    def __str__(self) -> str:
        """As `1 thread to decode, 2 for prompts, prompts in pieces of 64 tokens, no spinning`."""
        decode = f"{self.decode_threads} {'thread' if self.decode_threads == 1 else 'threads'}"
        if self.prefill_threads != self.decode_threads:
            decode += f" to decode, {self.prefill_threads} for prompts"
        spinning = "spinning" if self.spinning else "no spinning"
        return f"{decode}, prompts in pieces of {self.prefill_chunk} tokens, {spinning}"


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """What a tuning depends on beside the file; where any of it differs, the tuning is not used.

    Attributes:
        cpu: the processor's name.
        cpus: numbers of the cores that the process may run on.
        quota: cores' worth of time that its control group grants; None is unlimited.
        onnxruntime: its version.
        edgegpt: its version.
    """

    cpu: str
    cpus: tuple[int, ...]
    quota: float | None
    onnxruntime: str
    edgegpt: str


def fingerprint() -> Fingerprint:
    """Of this process on this machine."""
    return Fingerprint(
        cpu=cpu_name(),
        cpus=allowed_cpus(),
        quota=cgroup_quota(),
        onnxruntime=_version("onnxruntime"),
        edgegpt=_version("edgegpt-robot"),
    )


def find(file_sha256: str) -> Tuning | None:
    """The tuning of a file on this machine, None where there is none.

    It never raises: what is wrong with the folder or with what lies in it is logged as a warning, once.
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
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except OSError as e:
        _warn(f"the tunings in {folder} cannot be read ({e.strerror or e}), so there is none for this file")
        return None
    again = f"so it is not used; run `edgegpt tune` again, or remove {path}"
    if len(content) > _LARGEST:
        _warn(f"a tuning of more than {_LARGEST} bytes is none of edgegpt's, {again}")
        return None
    try:
        kept = json.loads(content)
        tuning = Tuning(**kept["tuning"])
        fits = kept["file_sha256"] == file_sha256 and kept["machine"] == _plain(machine)
    except (ValueError, LookupError, TypeError, RecursionError, EngineError) as e:
        _warn(f"the tuning of this file is damaged ({first_line(e)}), {again}")
        return None
    if not fits:
        _warn(f"the tuning of this file was made for another file or machine, {again}")
        return None
    cores = available_cores(len(machine.cpus), machine.quota)
    most = max(tuning.decode_threads, tuning.prefill_threads)
    if most > cores:
        _warn(f"the tuning of this file has {most} threads where {cores} can run, {again}")
        return None
    return tuning


def keep(file_sha256: str, tuning: Tuning) -> Path:
    """Keep the tuning of a file on this machine, in place of an older one.

    Returns:
        where it lies.

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
    """The folder of a file's tunings, made where it is missing; raises as `keep`."""
    root = _root()
    if root is None:
        raise MeasureError(
            "a tuning is kept in the user's cache folder, and this user has no home; set XDG_CACHE_HOME "
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
    """The user's cache folder by the XDG base directory specification, which ignores relative paths."""
    for base in (os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache")):  # noqa: PTH111
        if os.path.isabs(base):  # noqa: PTH117
            return Path(base) / "edgegpt" / "tuning"
    return None


def _plain(machine: Fingerprint) -> dict[str, Any]:
    """As JSON gives it back."""
    return {**asdict(machine), "cpus": list(machine.cpus)}


def _name(machine: Fingerprint) -> str:
    from hashlib import sha256

    return f"{sha256(json.dumps(_plain(machine)).encode()).hexdigest()[:16]}.json"


def _unwritable(folder: Path, error: OSError) -> str:
    return (
        f"the tuning cannot be kept in {folder}: {error.strerror or error}; set XDG_CACHE_HOME to a folder "
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
    """Once a process: a node that loads again and again should not fill its log."""
    import logging

    logging.getLogger(__name__).warning(sentence)
