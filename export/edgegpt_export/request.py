"""Arguments of an export, and the user's files: examples and sampling defaults."""

import reprlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from edgegpt.config import nearest, read_yaml
from edgegpt.contract import ENGINE, KV_CACHES, PORTABLE
from edgegpt.errors import ArtifactError, ConfigError, EdgeGPTError, SamplingError
from edgegpt.examples import Pair, fitting_pairs, numbered_pairs, read_text
from edgegpt.model import Checkpoint
from edgegpt.quantization import AUTO, PRECISIONS
from edgegpt.runtime import SamplingParams, check_file_name

OnStep = Callable[[str], None]  # called with a short status message

MB: Final = 1e6
SAMPLING: Final = "sampling.yaml"


@dataclass(frozen=True)
class ExportRequest:
    """The arguments of `export_checkpoint`, which describes them."""

    out: Path
    target: str
    precision: str
    kv_cache: str
    max_mb: float | None
    max_kl: float | None
    data: Path | None

    def check(self) -> None:
        """Raise ArtifactError where `out` is not possible, and EdgeGPTError for the other arguments."""
        precisions = (*PRECISIONS, AUTO)
        if self.target not in (ENGINE, PORTABLE):
            raise EdgeGPTError(f"target must be {ENGINE} or {PORTABLE}, got {self.target!r}")
        if self.precision not in precisions:
            raise EdgeGPTError(f"precision must be {', '.join(precisions)}, got {self.precision!r}")
        if self.kv_cache not in KV_CACHES:
            raise EdgeGPTError(f"kv_cache must be {' or '.join(KV_CACHES)}, got {self.kv_cache!r}")
        if self.target == PORTABLE and (self.precision, self.kv_cache) != ("fp32", "fp32"):
            raise EdgeGPTError(
                f"the portable target has standard operators only and is fp32, got {self.precision} with a "
                f"cache of {self.kv_cache}; the engine target has every precision"
            )
        self._check_limits()
        self._check_out()

    def _check_limits(self) -> None:
        limits = {"max_mb": self.max_mb, "max_kl": self.max_kl}
        given = {name: value for name, value in limits.items() if value is not None}
        if self.precision == AUTO and len(given) != 1:
            raise EdgeGPTError(
                "precision auto needs one limit, max_mb (megabytes of the file) or max_kl (nats), got "
                + (" and ".join(given) or "none")
            )
        for name, value in given.items():
            if self.precision != AUTO:
                raise EdgeGPTError(f"{name} is for precision auto, got {self.precision}")
            if not 0 < value < float("inf"):
                raise EdgeGPTError(f"{name} must be above 0, got {value:g}")

    def _check_out(self) -> None:
        out = self.out
        if out.is_dir():
            raise ArtifactError(f"{out} is a folder, expected the name of an .onnx file to make")
        if out.suffix != ".onnx":
            raise ArtifactError(f"the output file must end in .onnx, got {out}")
        if not out.parent.is_dir():
            raise ArtifactError(f"{out} cannot be written: the folder {out.parent} does not exist")
        check_file_name(out.absolute())


@dataclass(frozen=True)
class Examples:
    """Pairs that fit into the context, and the name of the file that they are from."""

    name: str
    pairs: list[Pair]


def read_examples(data: Path | None, checkpoint: Checkpoint) -> Examples | None:
    """Read the prompts and completions of a JSONL file; None without one.

    Raises:
        DataError: the file is not valid, or an example does not fit into the context.
    """
    if data is None:
        return None
    numbered = numbered_pairs(read_text(data), str(data))
    return Examples(data.name, fitting_pairs(numbered, str(data), checkpoint.config, checkpoint.tokenizer))


def read_sampling(folder: Path) -> dict[str, Any]:
    """Read and check the mapping in `folder`/sampling.yaml; empty if there is no such file.

    Raises:
        ConfigError: the file is not YAML, or has a key that is not a field of SamplingParams.
        SamplingError: a value is outside its range.
    """
    path = folder / SAMPLING
    if not path.exists() and not path.is_symlink():
        return {}
    mapping = read_yaml(path)
    names = [field.name for field in fields(SamplingParams)]
    for key in mapping:
        if key not in names:
            raise ConfigError(f"{path}: unknown key {reprlib.repr(key)}{nearest(key, names)}")
    try:
        SamplingParams(**mapping)
    except SamplingError as e:
        raise SamplingError(f"{path}: {e}") from e
    if not isinstance(mapping.get("stop", []), str | list):  # YAML has sets too, JSON does not
        stop = reprlib.repr(mapping["stop"])
        raise SamplingError(f"{path}: stop must be a string or a list of strings, got {stop}")
    return mapping
