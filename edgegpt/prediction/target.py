"""Define the board profile: measured costs of operators, engine calls and file loads, as a YAML file.

`edgegpt profile` writes it, predictions read it. Every cost is a sum of terms that are not negative, so more
layers or more tokens in the cache never make a call cheaper. Units are in the key names: us are
microseconds, ms milliseconds, MB 10^6 bytes.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import ConfigDict, Field, model_validator

from edgegpt.config import Measured, NonNegative, SmallCount, StrictModel, Text, load_yaml
from edgegpt.measure import Machine

Bits = Literal[4, 8, 32]

# Relative tolerance on one machine: profiles keep four digits, kernels take some of the memory.
_TOLERANCES: Final = {"memory_mb": 0.05, "last_level_cache_mb": 0.01}


class TargetMachine(StrictModel):
    """Machine that was profiled, as far as its system reports it."""

    cpu: str = Field(description="The processor's name.")
    board: str | None = Field(None, description="The board's name.")
    architecture: str = Field(description="CPU architecture (`uname -m`).")
    cores: SmallCount = Field(description="CPU cores.")
    memory_mb: Measured | None = Field(None, description="Physical memory.")
    last_level_cache_mb: Measured | None = Field(
        None, description="Last-level cache of the first core; may be shared."
    )
    versions: dict[str, str] = Field({}, description="Python and the packages that times depend on.")

    @classmethod
    def of(cls, machine: Machine) -> "TargetMachine":
        """Return the facts of a machine that stay the same from day to day."""
        return cls(
            cpu=machine.cpu,
            board=machine.board,
            architecture=machine.architecture,
            cores=machine.cores,
            memory_mb=None if machine.memory_bytes is None else machine.memory_bytes / 1e6,
            last_level_cache_mb=(
                None if machine.last_level_cache_bytes is None else machine.last_level_cache_bytes / 1e6
            ),
            versions=machine.versions,
        )

    def differences(self, other: "TargetMachine") -> tuple[str, ...]:
        """Return the differences of another machine, a short text each; versions are ignored.

        Virtual machines of many sizes share a processor's name, so sizes count where both are known.
        """
        names = ("cpu", "board", "architecture", "cores")
        pairs = [(name, getattr(self, name), getattr(other, name)) for name in names]
        found = [f"{name} {mine}, not {theirs}" for name, mine, theirs in pairs if mine != theirs]
        for name, tolerance in _TOLERANCES.items():
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine and theirs and abs(mine - theirs) > tolerance * mine:
                found.append(f"{name} {mine:,.1f}, not {theirs:,.1f}")
        return tuple(found)


class Bandwidth(StrictModel):
    """Read bandwidth of a buffer, read repeatedly by all threads at once; the best of several passes."""

    working_set_mb: Measured
    gb_s: Measured = Field(description="10^9 bytes a second.")


class Product(StrictModel):
    """Matrix product: `tokens` rows times a matrix (outputs, inputs) whose weights are in a near cache."""

    bits: Bits
    block: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        description="Weights that share a scale; 0 for 32 bits."
    )
    tokens: SmallCount = Field(description="Rows at once.")
    node_us: NonNegative
    us_per_1000_inputs: NonNegative
    us_per_1000_outputs: NonNegative
    us_per_million_weights: NonNegative


class Streaming(StrictModel):
    """Cost of fetching a MB of weights, by the working set of the call; 0 in the smallest."""

    bits: Bits
    tokens: SmallCount
    working_set_mb: Measured
    us_per_mb: NonNegative


class CacheStreaming(StrictModel):
    """Cost of fetching a MB of keys and values, by the working set of the call; 0 in the smallest."""

    working_set_mb: Measured
    us_per_mb: NonNegative


class Attention(StrictModel):
    """Attention of one layer for `tokens` new tokens; P is tokens x (cached + new)."""

    tokens: SmallCount
    node_us: NonNegative
    us_per_1000_values: NonNegative = Field(description="For n_embd x tokens.")
    us_per_million_products: NonNegative = Field(description="For n_embd x P.")
    us_per_1000_scores: NonNegative = Field(description="For n_head x P.")


class Line(StrictModel):
    """us = node_us + us_per_1000_values * values / 1000."""

    node_us: NonNegative
    us_per_1000_values: NonNegative


class Nodes(StrictModel):
    """Nodes other than products and attention, by the number of values that they write."""

    norm: Line = Field(description="Add and LayerNormalization.")
    gelu: Line = Field(description="FastGelu.")
    add: Line
    lookup_32_bits: Line = Field(description="Gather.")
    lookup_8_bits: Line = Field(description="GatherBlockQuantized.")


class Call(StrictModel):
    """us = call_us + us_per_layer * n_layer + node_factor * nodes timed alone + fetching."""

    call_us: NonNegative
    us_per_layer: NonNegative
    node_factor: NonNegative = Field(description="Above 1 where nodes evict each other's data.")


class Calls(StrictModel):
    """Costs of engine calls, fitted to whole small models."""

    step: Call = Field(description="One decode step, bound before.")
    chunk: Call = Field(description="A chunk of a prompt, bound anew.")
    greedy: Line = Field(description="Check for NaN and argmax, by vocabulary size.")
    draw: Line = Field(description="Sampling with temperature 1 and top_p 0.95, by vocabulary size.")


class PerPrecision(StrictModel):
    """One number for each precision of a file."""

    fp32: NonNegative
    int8: NonNegative
    int4: NonNegative


class PerMb(StrictModel):
    """Cost by place of the weights: in the file, or in external data from EXTERNAL_DATA_BYTES on."""

    inside: PerPrecision
    beside: PerPrecision


class Load(StrictModel):
    """Load time, from the start of the imports to a model that can be warmed up."""

    import_ms: NonNegative
    base_ms: NonNegative
    ms_per_layer: NonNegative
    ms_per_1000_tokens: NonNegative = Field(description="Per 1000 tokens of the vocabulary.")
    ms_per_mb: PerMb = Field(description="Per MB of weights.")


class Memory(StrictModel):
    """Peak resident memory of the process without its KV cache."""

    import_mb: NonNegative
    base_mb: NonNegative
    mb_per_layer: NonNegative
    mb_per_1000_tokens: NonNegative = Field(description="Per 1000 tokens of the vocabulary.")
    mb_per_mb: PerMb = Field(description="Per MB of weights.")


class Target(StrictModel):
    """A board profile: measured costs on one board with a fixed number of threads."""

    model_config = ConfigDict(title="edgegpt board profile")

    name: Text = Field(description="Name of the board.")
    date: str = Field(description="Date of the measurement, as 2026-01-31.")
    threads: SmallCount = Field(description="onnxruntime threads during the measurement.")
    machine: TargetMachine
    noise: list[str] = Field([], description="Why the times are not reliable; empty on a quiet machine.")
    read_bandwidth: list[Bandwidth] = Field(min_length=1)
    products: list[Product] = Field(min_length=1)
    streaming: list[Streaming] = Field(min_length=1)
    cache_streaming: list[CacheStreaming] = Field(min_length=1)
    attention: list[Attention] = Field(min_length=1)
    nodes: Nodes
    calls: Calls
    load: Load
    memory: Memory

    @model_validator(mode="before")
    @classmethod
    def _ignore_second_thread(cls, data: Any) -> Any:
        """Drop `second_thread_us`, which profiles of 2026 have and nothing reads."""
        return {k: v for k, v in data.items() if k != "second_thread_us"} if isinstance(data, dict) else data

    @model_validator(mode="after")
    def _is_whole(self) -> "Target":
        for bits in (4, 8, 32):
            rows = [row for row in self.products if row.bits == bits]
            if not any(row.tokens == 1 for row in rows):
                raise ValueError(f"products has no row for {bits} bits and 1 token")
            if any((row.block == 0) != (bits == 32) for row in rows):
                raise ValueError(f"products of {bits} bits have a wrong block; it is 0 for 32 bits alone")
            _check_streaming(bits, [row for row in self.streaming if row.bits == bits])
        _check_rises("cache_streaming", self.cache_streaming)
        if not any(row.tokens == 1 for row in self.attention):
            raise ValueError("attention has no row for 1 token")
        _check_once((row.bits, row.block, row.tokens) for row in self.products)
        _check_once(row.tokens for row in self.attention)
        return self

    @classmethod
    def from_yaml(cls, path: str | Path) -> "Target":
        """Read a profile; raises ConfigError naming file, key and value."""
        return load_yaml(path, cls)

    def to_yaml(self) -> str:
        """Return YAML text with one line for each row of a table and four digits for each figure."""
        data = _rounded(self.model_dump(exclude_none=True))
        return yaml.dump(data, sort_keys=False, default_flow_style=None, width=140, allow_unicode=True)


def _check_streaming(bits: int, rows: list[Streaming]) -> None:
    if not rows:
        raise ValueError(f"streaming has no row for {bits} bits")
    for tokens in {row.tokens for row in rows}:
        _check_rises(
            f"streaming of {bits} bits and {tokens} tokens", [row for row in rows if row.tokens == tokens]
        )


def _check_rises(what: str, rows: Sequence[Streaming | CacheStreaming]) -> None:
    costs = [row.us_per_mb for row in sorted(rows, key=lambda row: row.working_set_mb)]
    if costs != sorted(costs):
        raise ValueError(f"{what} must not fall as working_set_mb grows, got {costs}")


def _check_once(keys: Iterable[object]) -> None:
    seen: set[object] = set()
    for key in keys:
        if key in seen:
            raise ValueError(f"there are two rows for {key}")
        seen.add(key)


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
