"""What an export is asked for."""

from dataclasses import dataclass
from pathlib import Path

from edgegpt.contract import ENGINE, KV_CACHES, PORTABLE
from edgegpt.errors import ArtifactError, EdgeGPTError
from edgegpt.quantization import AUTO, PRECISIONS
from edgegpt.runtime.ort_backend import check_file_name

MB = 1e6


@dataclass(frozen=True)
class Request:
    """The arguments of `export_checkpoint`, which describes them."""

    out: Path
    target: str
    precision: str
    kv_cache: str
    max_mb: float | None
    max_kl: float | None
    data: Path | None

    def check(self) -> None:
        """Refuse what cannot be done, before any work: ArtifactError for the file, else EdgeGPTError."""
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
