"""The pydantic model of BUDGET.yaml: limits, and the board that they are for."""

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

from pydantic import ConfigDict, Field, field_validator, model_validator

from edgegpt.config import (
    AtLeastOne,
    Count,
    Positive,
    Share,
    StrictModel,
    Text,
    nearest,
    parse_model,
    read_bytes,
)

_SAME: Final = {"arm64": "aarch64", "AMD64": "x86_64", "ARM64": "aarch64"}  # names on macOS and Windows
_NO_LIMITS: Final = ("name", "threads", "board")


class Figure(StrictModel):
    """One number about a board and its source."""

    value: Positive = Field(description="The number, in the unit of its key.")
    basis: Literal["published", "measured"] = Field(
        description="published: from a data sheet of the maker; measured: measured on the board."
    )
    source: Annotated[str, Field(min_length=1)] = Field(
        description="A page or document that gives the number."
    )


class WholeFigure(Figure):
    """A figure that is a whole number."""

    value: Count = Field(description="The count.")


class Board(StrictModel):
    """The board that a budget is for."""

    description: Text = Field(description="Name and variant of the board.")
    architecture: Literal["aarch64", "armv7l", "riscv64", "x86_64"] | None = Field(
        None, description="CPU architecture (`uname -m`)."
    )
    device_tree: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="Start of its /proc/device-tree/model, such as Raspberry Pi 5."
    )
    cores: WholeFigure | None = Field(None, description="CPU cores.")
    clock_ghz: Figure | None = Field(None, description="Highest clock of a core.")
    memory_mb: Figure | None = Field(
        None,
        description="Memory of the board; a model that needs more is refused before it is loaded, and it is "
        "the limit of a measured peak_rss_mb where the budget gives none.",
    )
    memory_bandwidth_gb_s: Figure | None = Field(None, description="Memory bandwidth, 10^9 bytes a second.")
    never_measured: list[str] = Field(
        [],
        description="Keys of this budget, such as token_ms, whose limits are goals: no model has been "
        "measured on this board yet.",
    )

    def unlike(self, architecture: str, name: str | None) -> str:
        """Return why a machine cannot be this board, as a clause; "" where nothing differs.

        Args:
            architecture: the machine's CPU architecture (`uname -m`).
            name: the machine's name in its device tree; None without one.
        """
        found = _SAME.get(architecture, architecture)
        if self.architecture is not None and found != self.architecture:
            return f"this machine is {architecture} and not {self.architecture}"
        if self.device_tree is not None and name is not None and not name.startswith(self.device_tree):
            return f"this machine is a {name} and not a {self.device_tree}"
        return ""


class FirstTokenLatency(StrictModel):
    """Limits of the time to first token, in milliseconds, for a prompt of `prompt_tokens`."""

    prompt_tokens: Count = Field(32, description="Length of the prompt.")
    p50: Positive | None = Field(None, description="Median, in milliseconds.")
    p99: Positive | None = Field(None, description="99th percentile, in milliseconds.")

    @model_validator(mode="after")
    def _makes_sense(self) -> "FirstTokenLatency":
        _check_percentiles({"p50": self.p50, "p99": self.p99})
        return self


class TokenLatency(StrictModel):
    """Limits of the time of a decode step (time per output token), in milliseconds."""

    p50: Positive | None = Field(None, description="Median, in milliseconds.")
    p99: Positive | None = Field(None, description="99th percentile, in milliseconds.")
    max: Positive | None = Field(None, description="The slowest decode step, in milliseconds.")

    @model_validator(mode="after")
    def _makes_sense(self) -> "TokenLatency":
        _check_percentiles({"p50": self.p50, "p99": self.p99, "max": self.max})
        return self


_WITH_PERCENTILES: Final = (FirstTokenLatency, TokenLatency)


class Accuracy(StrictModel):
    """Minimum share of examples that a file has to answer exactly."""

    path: str = Field(description="A .jsonl of {prompt, completion}; relative to the budget file.")
    minimum: Share = Field(description="Share of greedy answers that equal the completion, from 0 to 1.")

    @field_validator("path")
    @classmethod
    def _is_jsonl(cls, path: str) -> str:
        if Path(path).suffix != ".jsonl":
            raise ValueError(f"must end in .jsonl, got {path!r}")
        return path


class Budget(StrictModel):
    """Every limit is optional; units are in the names, MB are 10^6 bytes and kB 10^3."""

    model_config = ConfigDict(title="edgegpt budget")

    name: Text = Field(description="Name of the board or the purpose.")
    parameters: Count | None = Field(None, description="Model parameters.")
    artifact_mb: Positive | None = Field(None, description="Size of the .onnx file with its data.")
    kv_cache_mb: Positive | None = Field(None, description="Size of one KV cache of the whole context.")
    peak_rss_mb: Positive | None = Field(
        None, description="Peak memory of the process that loads and generates."
    )
    load_ms: Positive | None = Field(
        None, description="From the start of the import until the first request can be made."
    )
    ttft_ms: FirstTokenLatency | None = Field(None, description="Time to first token (TTFT).")
    token_ms: TokenLatency | None = Field(None, description="Time of a decode step (TPOT).")
    jitter: AtLeastOne | None = Field(None, description="p99 / p50 of the time of a decode step.")
    idle_cpu_percent: Positive | None = Field(
        None, description="CPU use in percent of one core, while the loaded model waits for a request."
    )
    rss_slope_kb_per_1000: Positive | None = Field(
        None, description="Growth of memory over 1000 requests after a warm-up."
    )
    accuracy: Accuracy | None = Field(None, description="Exact match on a file of examples.")
    threads: Count = Field(1, description="CPU threads of onnxruntime.")
    board: Board | None = Field(None, description="The board that these limits are for.")

    @model_validator(mode="after")
    def _limits_something(self) -> "Budget":
        limits = self.limits()
        if not limits:
            raise ValueError("it has no limit; give at least one, such as `peak_rss_mb: 180`")
        if self.board is not None:
            _check_board(self, self.board, limits)
        return self

    def limits(self) -> dict[str, float]:
        """Return every limit that is given, by its name: `artifact_mb`, `ttft_ms.p50`, `accuracy`, ..."""
        found: dict[str, float] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if name in _NO_LIMITS or value is None:
                continue
            if isinstance(value, Accuracy):
                found[name] = value.minimum
            elif isinstance(value, FirstTokenLatency | TokenLatency):
                parts = value.model_dump(exclude={"prompt_tokens"}, exclude_none=True)
                found |= {f"{name}.{part}": limit for part, limit in parts.items()}
            else:
                found[name] = value
        return found

    @classmethod
    def from_yaml(cls, path: str | Path) -> "Budget":
        """Read a budget file; the path in `accuracy` becomes relative to the working directory.

        Raises:
            ConfigError: names file, key and value.
        """
        return cls.parse(read_bytes(Path(path)), path)

    @classmethod
    def parse(cls, content: bytes, path: str | Path) -> "Budget":
        """Return the budget in the content of the file at `path`; raises ConfigError."""
        budget = parse_model(content, path, cls)
        if budget.accuracy is None:
            return budget
        data = Path(path).parent / budget.accuracy.path
        return budget.model_copy(update={"accuracy": budget.accuracy.model_copy(update={"path": str(data)})})


def limit_names() -> list[str]:
    """Return the names of all limits that a budget can have, as in `Budget.limits`."""
    names: list[str] = []
    for name, field in Budget.model_fields.items():
        if name in _NO_LIMITS:
            continue
        parts = next((kind for kind in get_args(field.annotation) if kind in _WITH_PERCENTILES), None)
        inside = [] if parts is None else [part for part in parts.model_fields if part != "prompt_tokens"]
        names += [f"{name}.{part}" for part in inside] or [name]
    return names


def _check_percentiles(limits: dict[str, float | None]) -> None:
    given = [(name, limit) for name, limit in limits.items() if limit is not None]
    if not given:
        raise ValueError(f"it has no limit; give at least one of {', '.join(limits)}, got none")
    for (lower, small), (upper, large) in pairwise(given):
        if small > large:
            raise ValueError(f"{lower} must not be above {upper}, got {small} and {large}")


def _check_board(budget: Budget, board: Board, limits: dict[str, float]) -> None:
    if board.cores is not None and budget.threads > board.cores.value:
        raise ValueError(
            f"threads must not be above the board's cores, got {budget.threads} and {board.cores.value}"
        )
    for name in ("artifact_mb", "kv_cache_mb", "peak_rss_mb"):
        if board.memory_mb is not None and limits.get(name, 0) > board.memory_mb.value:
            raise ValueError(
                f"{name} must not be above the board's memory_mb, got {limits[name]} and "
                f"{board.memory_mb.value}"
            )
    keys = sorted({name.partition(".")[0] for name in limits})
    for key in board.never_measured:
        if key not in keys:
            raise ValueError(
                f"board.never_measured names {key!r}, which is not a limit of this budget{nearest(key, keys)}"
            )
