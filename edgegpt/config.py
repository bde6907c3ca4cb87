"""The shape of a GPT, as a value.

A `ModelConfig` is frozen and checked where it is made; nothing downstream checks it again.
"""

from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from edgegpt.yaml_file import load_yaml, parse_yaml, validate

# Beyond what any machine holds, so that a slip of the finger is refused before memory is asked for.
Count = Annotated[int, Field(ge=1, le=2**24)]
Layers = Annotated[int, Field(ge=1, le=1024)]


class ModelConfig(BaseModel):
    """Hyper-parameters of one model. Unknown keys and wrong types are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, title="edgegpt model")

    family: Literal["gpt2"] = Field(
        default="gpt2", description="Block design: LayerNorm, learned positions, GELU."
    )
    vocab_size: Count = Field(description="Rows of the token embedding; at least the tokenizer's size.")
    block_size: Count = Field(description="Context length in tokens: prompt and answer together.")
    n_layer: Layers = Field(description="Number of transformer blocks.")
    n_head: Count = Field(description="Number of attention heads; must divide n_embd.")
    n_embd: Count = Field(description="Width of the residual stream.")
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0, description="Dropout probability while training.")
    qkv_bias: bool = Field(default=False, description="Whether the query/key/value projection has a bias.")
    tie_embeddings: bool = Field(
        default=False, description="Whether the head shares the token embedding's weights."
    )
    gelu: Literal["tanh", "erf"] = Field(
        default="tanh", description="GELU: GPT-2's tanh approximation or the exact erf."
    )

    @model_validator(mode="after")
    def _heads_divide_width(self) -> "ModelConfig":
        if self.n_embd % self.n_head:
            raise ValueError(f"n_embd must be divisible by n_head, got {self.n_embd} and {self.n_head}")
        return self

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.n_embd // self.n_head

    @property
    def n_kv_head(self) -> int:
        """Number of key/value heads; the gpt2 family has one for each query head."""
        return self.n_head

    @classmethod
    def from_yaml(cls, path: str | Path) -> "ModelConfig":
        """Read a config file; raises ConfigError naming file, key and value."""
        return load_yaml(path, cls)

    @classmethod
    def parse(cls, text: str, source: str) -> "ModelConfig":
        """Read a config from YAML text; `source` names it in errors."""
        return validate(parse_yaml(text, source), cls, source)

    def to_yaml(self) -> str:
        """The config as YAML text, every key written out."""
        return yaml.safe_dump(self.model_dump(), sort_keys=False)
