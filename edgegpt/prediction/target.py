"""What a board was measured to do, as a file: `edgegpt profile` writes it, predictions read it.

Every cost is a sum of terms that are not negative, so more layers or more tokens in the cache never make a
call cheaper. Units are in the key names: us are microseconds, ms milliseconds, MB 10^6 bytes.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from edgegpt.config import Measured, NonNegative, SmallCount, Text, load_yaml
from edgegpt.measure import Machine

Bits = Literal[4, 8, 32]

# By what share they may differ on one machine: profiles keep four digits, kernels take some of the memory.
_SIZES: Final = {"memory_mb": 0.05, "last_level_cache_mb": 0.01}


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class TargetMachine(_Strict):
    """The machine that was measured. What its system does not tell is left out."""

    cpu: str = Field(description="The processor's name.")
    board: str | None = Field(None, description="The board's name.")
    architecture: str = Field(description="As x86_64 or aarch64.")
    cores: SmallCount = Field(description="Of the machine.")
    memory_mb: Measured | None = Field(None, description="Of the machine.")
    last_level_cache_mb: Measured | None = Field(None, description="Of the first core, maybe shared.")
    versions: dict[str, str] = Field({}, description="Of python and the packages a time depends on.")

    @classmethod
    def of(cls, machine: Machine) -> "TargetMachine":
        """The facts of a machine that stay the same from day to day."""
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
        """What tells another machine from this one, a few words each; versions are not looked at.

        Virtual machines of many sizes share one name of a processor, so the sizes count where both know them.
        """
        names = ("cpu", "board", "architecture", "cores")
        pairs = [(name, getattr(self, name), getattr(other, name)) for name in names]
        found = [f"{name} {mine}, not {theirs}" for name, mine, theirs in pairs if mine != theirs]
        for name, tolerance in _SIZES.items():
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine and theirs and abs(mine - theirs) > tolerance * mine:
                found.append(f"{name} {mine:,.1f}, not {theirs:,.1f}")
        return tuple(found)


class Bandwidth(_Strict):
    """How fast a buffer is read over and over by all threads at once, the best of several passes."""

    working_set_mb: Measured
    gb_s: Measured = Field(description="10^9 bytes a second.")


class Product(_Strict):
    """Rows of inputs times a matrix (outputs, inputs), the weights at hand in a near cache."""

    bits: Bits
    block: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        description="Weights that share a scale; 0 for 32 bits."
    )
    tokens: SmallCount = Field(description="Rows at once.")
    node_us: NonNegative
    us_per_1000_inputs: NonNegative
    us_per_1000_outputs: NonNegative
    us_per_million_weights: NonNegative


class Streaming(_Strict):
    """What a MB of weights costs more where a call reads so much in all that it lies further away."""

    bits: Bits
    tokens: SmallCount
    working_set_mb: Measured
    us_per_mb: NonNegative


class CacheStreaming(_Strict):
    """What a MB of keys and values costs more where a call reads so much in all that it lies further away."""

    working_set_mb: Measured
    us_per_mb: NonNegative


class Attention(_Strict):
    """One layer's attention of `tokens` new ones; P is tokens x (cached + new)."""

    tokens: SmallCount
    node_us: NonNegative
    us_per_1000_values: NonNegative = Field(description="For n_embd x tokens.")
    us_per_million_products: NonNegative = Field(description="For n_embd x P.")
    us_per_1000_scores: NonNegative = Field(description="For n_head x P.")


class Line(_Strict):
    """us = node_us + us_per_1000_values * values / 1000."""

    node_us: NonNegative
    us_per_1000_values: NonNegative


class Nodes(_Strict):
    """Nodes that are no product and no attention, by the values that they make."""

    norm: Line = Field(description="Add and LayerNormalization.")
    gelu: Line = Field(description="FastGelu.")
    add: Line
    lookup_32_bits: Line = Field(description="Gather.")
    lookup_8_bits: Line = Field(description="GatherBlockQuantized.")


class Call(_Strict):
    """us = call_us + us_per_layer * n_layer + node_factor * its nodes, timed alone, + fetching of weights."""

    call_us: NonNegative
    us_per_layer: NonNegative
    node_factor: NonNegative = Field(description="In a model, other nodes push it out of the near caches.")


class Calls(_Strict):
    """What calls of the engine cost, fitted to whole small models."""

    step: Call = Field(description="One token, everything bound before.")
    chunk: Call = Field(description="A piece of a prompt, which is bound anew.")
    greedy: Line = Field(description="The check for NaN and argmax, by the vocabulary.")
    draw: Line = Field(description="Temperature 1 and top_p 0.95 instead of argmax, by the vocabulary.")


class PerPrecision(_Strict):
    """One number for each precision of a file."""

    fp32: NonNegative
    int8: NonNegative
    int4: NonNegative


class PerMb(_Strict):
    """By where a file has its weights: inside, or beside it from contract.EXTERNAL_DATA_BYTES on."""

    inside: PerPrecision
    beside: PerPrecision


class Load(_Strict):
    """From the start of the imports to a model that can be warmed up."""

    import_ms: NonNegative
    base_ms: NonNegative
    ms_per_layer: NonNegative
    ms_per_1000_tokens: NonNegative = Field(description="Of the vocabulary.")
    ms_per_mb: PerMb = Field(description="Of the weights.")


class Memory(_Strict):
    """Peak resident memory of the process, its KV cache apart."""

    import_mb: NonNegative
    base_mb: NonNegative
    mb_per_layer: NonNegative
    mb_per_1000_tokens: NonNegative = Field(description="Of the vocabulary.")
    mb_per_mb: PerMb = Field(description="Of the weights.")


class Target(_Strict):
    """What one board was measured to do, with so many threads."""

    model_config = ConfigDict(title="edgegpt target")

    name: Text = Field(description="Of the board.")
    date: str = Field(description="When it was measured, as 2026-01-31.")
    threads: SmallCount = Field(description="Of onnxruntime, while it was measured.")
    machine: TargetMachine
    noise: list[str] = Field([], description="Why the times are not to be trusted; empty if it was quiet.")
    read_bandwidth: list[Bandwidth] = Field(min_length=1)
    products: list[Product] = Field(min_length=1)
    streaming: list[Streaming] = Field(min_length=1)
    cache_streaming: list[CacheStreaming] = Field(min_length=1)
    attention: list[Attention] = Field(min_length=1)
    nodes: Nodes
    calls: Calls
    second_thread_us: NonNegative | None = Field(
        None,
        description=(
            "What a node that is too small to gain takes longer when a sleeping second thread is woken to "
            "share it; None with one core. No prediction uses it."
        ),
    )
    load: Load
    memory: Memory

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
        """Read a target file; raises ConfigError naming file, key and value."""
        return load_yaml(path, cls)

    def to_yaml(self) -> str:
        """As YAML text, a row of a table on a line, four digits of every figure."""
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
