"""The shape of a GPT, as a value.

A `ModelConfig` is frozen and checked where it is made; nothing downstream checks it again. It is a
plain dataclass, because a robot's process would pay 16 MB and a third of its start for pydantic.
PyYAML is left out of it too (1 MB, 20 ms): the config in an exported file is JSON, which YAML includes.
"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, get_args

from edgegpt.config.messages import Problem, listed, missing_key, unknown_key, wrong_value
from edgegpt.errors import ConfigError

# Beyond what any machine holds, so that a slip of the finger is refused before memory is asked for.
_COUNT: Final = {"ge": 1, "le": 2**24}
_LAYERS: Final = {"ge": 1, "le": 1024}
_LONGEST_JSON: Final = 10_000  # characters; what is longer is refused, and YAML's reader says why


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Hyper-parameters of one model. Unknown keys and wrong types are refused."""

    # What tools/json_schemas.py, through pydantic, cannot see: the checks below are our own.
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
        default=0.0, metadata={"description": "Dropout probability while training.", "ge": 0.0, "lt": 1.0}
    )
    qkv_bias: bool = field(
        default=False, metadata={"description": "Whether the query/key/value projection has a bias."}
    )
    tie_embeddings: bool = field(
        default=False, metadata={"description": "Whether the head shares the token embedding's weights."}
    )
    gelu: Literal["tanh", "erf"] = field(
        default="tanh", metadata={"description": "GELU: GPT-2's tanh approximation or the exact erf."}
    )

    def __post_init__(self) -> None:
        if found := problems_in(vars(self)):
            raise ConfigError(listed(found))
        object.__setattr__(self, "dropout", float(self.dropout))

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.n_embd // self.n_head

    @property
    def n_kv_head(self) -> int:
        """Number of key/value heads; the gpt2 family has one for each query head."""
        return self.n_head

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every parameter tensor, in the PyTorch module's order.

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
        from edgegpt.config.yaml_reader import read_yaml

        return _of(read_yaml(Path(path)), str(path))

    @classmethod
    def parse(cls, text: str, source: str) -> "ModelConfig":
        """Read a config from YAML or JSON text; `source` names it in errors."""
        data = _json_object(text)
        if data is None:
            from edgegpt.config.yaml_reader import parse_yaml

            data = parse_yaml(text, source)
        return _of(data, source)

    def to_json(self) -> str:
        """The config as JSON text on one line, every key written out."""
        return json.dumps(asdict(self))

    def to_yaml(self) -> str:
        """The config as YAML text, every key written out."""
        import yaml

        return yaml.safe_dump(asdict(self), sort_keys=False)


def problems_in(data: Mapping[Any, Any], inside: str = "") -> list[Problem]:
    """All that is wrong with a config's keys and values; `inside` stands before each key."""
    known = {key.name: key for key in fields(ModelConfig)}
    found = []
    for name, key in known.items():
        if name not in data:
            if key.default is MISSING:
                found.append(missing_key(inside + name))
        elif wanted := _wanted(key, data[name]):
            found.append(wrong_value(inside + name, wanted, data[name]))
    names = list(known)
    found += [unknown_key(name, names, inside) for name in data if name not in known]
    if not found and data["n_embd"] % data["n_head"]:
        sizes = f"{data['n_embd']} and {data['n_head']}"
        found.append(Problem(f"{inside}n_embd must be divisible by n_head, got {sizes}"))
    return found


def _wanted(key: "Field[Any]", value: Any) -> str:
    """What a value must be, where it is not."""
    if key.type is bool:
        return "" if isinstance(value, bool) else "must be true or false"
    limits: Mapping[str, Any] = key.metadata
    if key.type is int:
        least, most = limits["ge"], limits["le"]
        fits = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        return "" if fits else f"must be a whole number from {least} to {most}"
    if key.type is float:
        least, below = limits["ge"], limits["lt"]
        fits = isinstance(value, int | float) and not isinstance(value, bool) and least <= value < below
        return "" if fits else f"must be a number from {least:g} to below {below:g}"
    choices = get_args(key.type)
    fits = isinstance(value, str) and value in choices
    return "" if fits else f"must be {' or '.join(map(repr, choices))}"


def _json_object(text: str) -> dict[str, Any] | None:
    """What a text says, None where it is no JSON object in which each key stands once."""
    if len(text) > _LONGEST_JSON:
        return None
    try:
        data = json.loads(text, object_pairs_hook=_each_once)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("a key stands there twice")
    return data


def _of(data: Mapping[Any, Any], source: str) -> ModelConfig:
    if found := problems_in(data):
        from edgegpt.config.yaml_reader import other_kind  # only who has made a mistake pays for it

        if other := other_kind(data, ModelConfig.__name__):
            raise ConfigError(f"{source} is {other}")
        raise ConfigError(f"{source}: {listed(found)}")
    return ModelConfig(**data)
