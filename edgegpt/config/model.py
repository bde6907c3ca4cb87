"""Define the shape of a GPT as a frozen, checked config.

A `ModelConfig` is frozen and checked where it is made; nothing downstream checks it again. It is a plain
dataclass, because pydantic would cost a robot's process 16 MB and a third of its start. PyYAML is left out
too (1 MB, 20 ms): the config in an exported file is JSON. Both are imported where a config is wrong.
"""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, get_args

from edgegpt.errors import ConfigError

# Above what any machine holds, so that a typing error is refused before memory is asked for. `strict` is for
# pydantic, which reads all of the metadata.
_COUNT: Final = {"ge": 1, "le": 2**24, "strict": True}
_LAYERS: Final = {"ge": 1, "le": 1024, "strict": True}


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Hyper-parameters of one model; a wrong type or a value outside its range is a ConfigError."""

    # Read by pydantic, which validates YAML and writes the JSON Schema.
    __pydantic_config__: ClassVar[dict[str, str]] = {"title": "edgegpt model", "extra": "forbid"}

    family: Literal["gpt2"] = field(
        default="gpt2", metadata={"description": "Block design: LayerNorm, learned positions, GELU."}
    )
    vocab_size: int = field(
        metadata={"description": "Rows of the token embedding; at least the tokenizer's size.", **_COUNT}
    )
    block_size: int = field(
        metadata={"description": "Context length in tokens: prompt and answer together.", **_COUNT}
    )
    n_layer: int = field(metadata={"description": "Number of transformer blocks.", **_LAYERS})
    n_head: int = field(metadata={"description": "Number of attention heads; must divide n_embd.", **_COUNT})
    n_embd: int = field(metadata={"description": "Width of the residual stream.", **_COUNT})
    dropout: float = field(
        default=0.0,
        metadata={"description": "Dropout probability while training.", "ge": 0.0, "lt": 1.0, "strict": True},
    )
    qkv_bias: bool = field(
        default=False,
        metadata={"description": "Whether the query/key/value projection has a bias.", "strict": True},
    )
    tie_embeddings: bool = field(
        default=False,
        metadata={"description": "Whether the head shares the token embedding's weights.", "strict": True},
    )
    gelu: Literal["tanh", "erf"] = field(
        default="tanh", metadata={"description": "GELU: GPT-2's tanh approximation or the exact erf."}
    )

    def __post_init__(self) -> None:
        for key in fields(self):
            value, limits = getattr(self, key.name), key.metadata
            if key.type is bool:
                wanted, fits = "true or false", type(value) is bool
            elif key.type is int:
                wanted = f"a whole number from {limits['ge']} to {limits['le']}"
                fits = type(value) is int and limits["ge"] <= value <= limits["le"]
            elif key.type is float:
                wanted = f"a number from {limits['ge']:g} to below {limits['lt']:g}"
                fits = type(value) in (int, float) and limits["ge"] <= value < limits["lt"]
            else:
                wanted = " or ".join(map(repr, get_args(key.type)))
                fits = value in get_args(key.type)
            if not fits:
                raise ConfigError(f"{key.name} must be {wanted}, got {value!r}")
        if self.n_embd % self.n_head:
            raise ConfigError(f"n_embd must be divisible by n_head, got {self.n_embd} and {self.n_head}")
        object.__setattr__(self, "dropout", float(self.dropout))

    @property
    def head_dim(self) -> int:
        """Return the width of one attention head."""
        return self.n_embd // self.n_head

    @property
    def n_kv_head(self) -> int:
        """Return the number of key/value heads; the gpt2 family has one for each query head."""
        return self.n_head

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return name and shape of every parameter tensor, in the PyTorch module's order.

        Linear weights are (out, in), as in `torch.nn.Linear`. A tied head has no tensor of its own.
        """
        d, v = self.n_embd, self.vocab_size
        shapes: dict[str, tuple[int, ...]] = {"wte.weight": (v, d), "wpe.weight": (self.block_size, d)}
        for i in range(self.n_layer):
            block = f"blocks.{i}"
            shapes[f"{block}.norm_1.weight"] = (d,)
            shapes[f"{block}.norm_1.bias"] = (d,)
            shapes[f"{block}.attn.qkv.weight"] = (3 * d, d)
            if self.qkv_bias:
                shapes[f"{block}.attn.qkv.bias"] = (3 * d,)
            shapes[f"{block}.attn.proj.weight"] = (d, d)
            shapes[f"{block}.attn.proj.bias"] = (d,)
            shapes[f"{block}.norm_2.weight"] = (d,)
            shapes[f"{block}.norm_2.bias"] = (d,)
            shapes[f"{block}.mlp.fc.weight"] = (4 * d, d)
            shapes[f"{block}.mlp.fc.bias"] = (4 * d,)
            shapes[f"{block}.mlp.proj.weight"] = (d, 4 * d)
            shapes[f"{block}.mlp.proj.bias"] = (d,)
        shapes["norm_f.weight"] = (d,)
        shapes["norm_f.bias"] = (d,)
        if not self.tie_embeddings:
            shapes["head.weight"] = (v, d)
        return shapes

    @classmethod
    def from_yaml(cls, path: str | Path) -> "ModelConfig":
        """Read a config file; raises ConfigError naming file, key and value."""
        from edgegpt.config.schema import load_yaml

        return load_yaml(path, cls)

    @classmethod
    def parse(cls, text: str, source: str) -> "ModelConfig":
        """Read a config from JSON or YAML text; raises ConfigError that starts with `source`."""
        try:
            return cls(**json.loads(text, object_pairs_hook=_each_once))
        except (ValueError, TypeError, RecursionError, ConfigError):
            # Not our JSON: slower, with exact error messages.
            from edgegpt.config.schema import validate
            from edgegpt.config.yaml_reader import parse_yaml

            return validate(parse_yaml(text, source), source, cls)

    def to_json(self) -> str:
        """Return JSON text on one line, with every key."""
        return json.dumps(asdict(self))

    def to_yaml(self) -> str:
        """Return YAML text with every key."""
        import yaml

        return yaml.safe_dump(asdict(self), sort_keys=False)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("a key occurs twice")
    return data
