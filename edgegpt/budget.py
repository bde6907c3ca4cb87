"""Limits that a board sets, as a file."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from edgegpt.yaml_file import load_yaml

Limit = Annotated[float, Field(gt=0.0)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Latency(_Strict):
    """Limits of a distribution, in milliseconds."""

    p50: Limit | None = None
    p99: Limit | None = None

    @model_validator(mode="after")
    def _ordered(self) -> "Latency":
        if self.p50 is not None and self.p99 is not None and self.p50 > self.p99:
            raise ValueError(f"p50 must not be above p99, got {self.p50} and {self.p99}")
        return self


class FirstTokenLatency(Latency):
    """Limits of the time to first token, in milliseconds, for a prompt of `prompt_tokens`."""

    prompt_tokens: Annotated[int, Field(ge=1)] = 32


class Budget(_Strict):
    """Every limit is optional; units are in the names, MB are 10^6 bytes."""

    model_config = ConfigDict(title="edgegpt budget")

    name: str = Field(description="Of the board or the purpose.")
    parameters: Annotated[int, Field(ge=1)] | None = Field(None, description="Of the model.")
    artifact_mb: Limit | None = Field(None, description="The .onnx file with its data.")
    kv_cache_mb: Limit | None = Field(None, description="One cache of the whole context.")
    peak_rss_mb: Limit | None = Field(None, description="Of the process that loads and generates.")
    load_ms: Limit | None = Field(None, description="From import to the first request.")
    ttft_ms: FirstTokenLatency | None = Field(None, description="Time to first token.")
    token_ms: Latency | None = Field(None, description="One further token.")
    threads: Annotated[int, Field(ge=1)] = Field(1, description="CPU threads to measure with.")

    @classmethod
    def from_yaml(cls, path: str | Path) -> "Budget":
        """Read a budget file; raises ConfigError naming file, key and value."""
        return load_yaml(path, cls)
