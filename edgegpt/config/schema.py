"""Validate YAML with pydantic, and report errors in sentences with key and value.

Kept apart from `edgegpt.config.yaml_reader`, because the robot's process loads no pydantic.
"""

import re
import reprlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from edgegpt.config.yaml_reader import decode_yaml, nearest, read_bytes
from edgegpt.errors import ConfigError

Model = TypeVar("Model")

_MOST_PROBLEMS: Final = 10  # in one message
_MAPPINGS: Final = ("model_type", "model_attributes_type", "dataclass_type", "dict_type")
_UNKNOWN: Final = ("extra_forbidden", "unexpected_keyword_argument", "invalid_key")

# Kind of file by class, and keys that no other kind has.
KINDS: Final = {
    "Budget": (
        "a budget (see configs/budgets/)",
        {"artifact_mb", "kv_cache_mb", "peak_rss_mb", "load_ms", "ttft_ms", "token_ms"},
    ),
    "Target": (
        "a board profile (see `edgegpt profile`)",
        {"machine", "products", "streaming", "cache_streaming", "attention"},
    ),
    "ModelConfig": (
        "a model config (see configs/models/)",
        {"vocab_size", "block_size", "n_layer", "n_head", "n_embd"},
    ),
    "RunConfig": (
        "a training run (see configs/training/)",
        {"out", "train", "validation", "steps", "learning_rate"},
    ),
}


class StrictModel(BaseModel):
    """Base of the models of YAML files: frozen, without unknown keys and without conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def load_yaml(path: str | Path, model: type[Model]) -> Model:
    """Read the file at `path` and validate it as `model`.

    Raises:
        ConfigError: the file cannot be read, is not a YAML mapping, or does not fit the model. The
            message names the file, every offending key and its value.
    """
    return parse_model(read_bytes(Path(path)), path, model)


def parse_model(content: bytes, path: str | Path, model: type[Model]) -> Model:
    """Validate the content of the file at `path` as `model`; raises ConfigError as `load_yaml` does."""
    return validate(decode_yaml(content, str(path)), str(path), model)


def validate(data: Mapping[str, Any], source: str, model: type[Model]) -> Model:
    """Validate a mapping as `model`, a pydantic model or a dataclass; raises ConfigError naming `source`."""
    try:
        return TypeAdapter(model).validate_python(data)
    except ConfigError as e:  # raised by the class itself
        raise ConfigError(f"{source}: {e}") from e
    except ValidationError as e:
        own, own_keys = KINDS.get(model.__name__, ("", set(data)))
        for kind, keys in KINDS.values():
            if keys & data.keys() and not own_keys & data.keys():
                raise ConfigError(f"{source} is {kind.partition(' (')[0]}, expected {own}") from e
        problems = [_problem(error, model) for error in e.errors(include_url=False)]
        more = len(problems) - _MOST_PROBLEMS
        problems[_MOST_PROBLEMS:] = [f"and {more} more"] if more > 0 else []
        raise ConfigError(f"{source}: {'; '.join(problems)}") from e


def _problem(error: Any, model: type) -> str:
    """Return one of pydantic's errors as a sentence."""
    location, kind, value = error["loc"], error["type"], error["input"]
    key = ".".join(map(str, location))
    if kind in _UNKNOWN:
        return f"unknown key {reprlib.repr(key)}{nearest(location[-1], _keys_at(location[:-1], model))}"
    if kind == "missing":
        return f"the key {key!r} is missing"
    message = str(error["msg"]).removeprefix("Value error, ")
    if not key:
        return message
    if kind in _MAPPINGS:
        message = "must be `key: value` lines"
    message = re.sub(r"^\w+ should ", "must ", message)  # Input, String, List, ...
    message = message.replace("a valid integer", "a whole number").replace("a valid ", "a ")
    if kind == "value_error":  # a validator of ours has written the whole sentence
        return f"{key}: {message}"
    return f"{key} {message}, got {reprlib.repr(value)}"


def _keys_at(location: tuple[str | int, ...], model: type | None) -> list[str]:
    """Return the keys of the mapping at `location` inside `model`."""
    for part in location:
        if isinstance(part, str) and model is not None:  # an element of a list has the list's model
            model = _model_in(_annotations(model).get(part))
    return list(_annotations(model))


def _annotations(model: type | None) -> dict[str, Any]:
    if is_dataclass(model):
        return {field.name: field.type for field in fields(model)}
    if model is not None and issubclass(model, BaseModel):
        return {name: field.annotation for name, field in model.model_fields.items()}
    return {}


def _model_in(annotation: Any) -> type | None:
    """Return the class in `Model`, `Model | None`, `list[Model]` or `dict[str, Model]`."""
    if isinstance(annotation, type) and (is_dataclass(annotation) or issubclass(annotation, BaseModel)):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def _without_unit(value: Any) -> Any:
    if isinstance(value, str) and any(c.isdigit() for c in value):
        raise ValueError(f"must be a number alone, its unit is in the key's name, got {value[:40]!r}")
    return value  # another string is refused by its type


def _whole(value: Any) -> Any:
    """Read `5e6`, which YAML makes a float, as a whole number."""
    value = _without_unit(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


# Types of values in YAML files; a number's unit is in the key's name. Each number has all of its bounds in
# one Field: from a second one behind the validator pydantic makes no `minimum` of a JSON Schema.
_MOST: Final = 1e12  # largest measured figure; sums of products of larger ones would reach infinity
_number: Final = BeforeValidator(_without_unit)
Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False), _number]
NonNegative = Annotated[float, Field(ge=0.0, le=_MOST, allow_inf_nan=False), _number]
Measured = Annotated[float, Field(gt=0.0, le=_MOST, allow_inf_nan=False), _number]
AtLeastOne = Annotated[float, Field(ge=1.0, allow_inf_nan=False), _number]
Share = Annotated[float, Field(gt=0.0, le=1.0, allow_inf_nan=False), _number]
Count = Annotated[int, Field(ge=1), BeforeValidator(_whole)]
SmallCount = Annotated[int, Field(ge=1, le=1_000_000), BeforeValidator(_whole)]
