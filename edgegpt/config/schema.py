"""Read a YAML file into a pydantic model; what is wrong with it becomes sentences.

Apart from `edgegpt.config.yaml_reader`, because the robot's process loads no pydantic.

Numbers and names as people write them in YAML files; a number's unit is in the key's name.
"""

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, get_args

import pydantic
from pydantic import AfterValidator, BeforeValidator, Field

from edgegpt.config.messages import Problem, listed, missing_key, unknown_key, wrong_value
from edgegpt.config.yaml_reader import decode_yaml, other_kind, read_bytes
from edgegpt.errors import ConfigError

Model = TypeVar("Model", bound=pydantic.BaseModel)

# What pydantic says of a type, by its beginning, and what people say.
_PLAIN: Final = {
    "must be a valid dictionary": "must be `key: value` lines",
    "must be a valid integer": "must be a whole number",
    "must be a valid number": "must be a number",
    "must be a valid string": "must be text",
    "must be a valid list": "must be a list",
    "must be a valid boolean": "must be true or false",
}

PROBLEMS = "mistakes"  # type of a pydantic error that brings its own, a list of Mistake under this key


def load_yaml(path: str | Path, model: type[Model]) -> Model:
    """Read `path` and validate it as `model`.

    Raises:
        ConfigError: the file cannot be read, is not a YAML mapping, or does not fit the model. The
            message names the file, every offending key and its value.
    """
    return parse_model(read_bytes(Path(path)), path, model)


def parse_model(content: bytes, path: str | Path, model: type[Model]) -> Model:
    """What `load_yaml` makes of the file's content, for whoever needs both; raises ConfigError."""
    data = decode_yaml(content, str(path))
    try:
        return model.model_validate(data)
    except pydantic.ValidationError as e:
        if other := other_kind(data, model.__name__):
            raise ConfigError(f"{path} is {other}") from e
        errors = e.errors(include_url=False)
        mistakes = [mistake for error in errors for mistake in _mistakes(error, model)]
        raise ConfigError(f"{path}: {listed(mistakes)}") from e


def _mistakes(error: Any, model: type[pydantic.BaseModel]) -> Sequence[Problem]:
    if error["type"] == PROBLEMS:
        mistakes: Sequence[Problem] = error["ctx"][PROBLEMS]
        return mistakes
    return [_mistake(error, model)]


def _mistake(error: Any, model: type[pydantic.BaseModel]) -> Problem:
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        *location, name = error["loc"]
        inside = "".join(f"{part}." for part in location)
        return unknown_key(name, _fields_at(location, model), inside)
    if error["type"] == "missing":
        return missing_key(key)
    message = str(error["msg"]).removeprefix("Value error, ")
    if not key:
        return Problem(message)
    message = re.sub(r"^\w+ should ", "must ", message)  # Input, String, List, ...
    for start, plain in _PLAIN.items():
        if message.startswith(start):
            message = plain
    if error["type"] in ("model_type", "model_attributes_type"):
        message += _as_lines(error["input"], _model_at(error["loc"], model))
    if ", got " in message:  # a validator of ours has said it
        return Problem(f"{key}: {message}")
    return wrong_value(key, message, error["input"])


def _as_lines(value: object, model: type[pydantic.BaseModel] | None) -> str:
    """`, such as {p50: 20}`, where a value alone could stand at a key of the lines that are wanted."""
    if model is None or not isinstance(value, str | int | float) or isinstance(value, bool):
        return ""
    fields = model.model_fields.items()
    keys = [name for name, field in fields if field.is_required()]
    keys = keys or [name for name, field in fields if field.default is None][:1]
    pairs = [f"{key}: {value if i == 0 else '...'}" for i, key in enumerate(keys)]
    return f", such as {{{', '.join(pairs)}}}" if pairs else ""


def _fields_at(location: Sequence[str | int], model: type[pydantic.BaseModel]) -> list[str]:
    found = _model_at(location, model)
    return list(found.model_fields) if found else []


def _model_at(
    location: Sequence[str | int], model: type[pydantic.BaseModel] | None
) -> type[pydantic.BaseModel] | None:
    for part in location:
        if isinstance(part, int):  # an element of a list, whose model was found with the list
            continue
        field = model.model_fields.get(part) if model else None
        model = _model_in(field.annotation) if field else None
    return model


def _model_in(annotation: Any) -> type[pydantic.BaseModel] | None:
    """The pydantic model in `Model`, `Model | None`, `list[Model]` or `dict[str, Model]`."""
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def _plain(value: Any) -> Any:
    if isinstance(value, str) and any(c.isdigit() for c in value):
        raise ValueError(f"must be a number alone, its unit is in the key's name, got {value[:40]!r}")
    return value  # a word is refused by its type


def _whole(value: Any) -> Any:
    """`5e6` is a whole number to whoever writes it."""
    value = _plain(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _shown(value: str) -> str:
    if any(unicodedata.category(c) == "Cc" for c in value):  # they steer a terminal
        raise ValueError(f"must not hold control characters, got {value[:40]!r}")
    return value


# What is shown to people.
Text = Annotated[str, Field(min_length=1), AfterValidator(_shown)]
# Above 0 and finite.
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False), BeforeValidator(_plain)]
_MOST = 1e12  # of what a board is measured to do; sums of products of larger ones would reach infinity
NonNegative = Annotated[float, Field(ge=0.0, le=_MOST, allow_inf_nan=False), BeforeValidator(_plain)]
Measured = Annotated[float, Field(gt=0.0, le=_MOST, allow_inf_nan=False), BeforeValidator(_plain)]
# A factor by which something grows, and a part of a whole. Each has all of its bounds in one Field: from a
# second one behind the validator pydantic makes no `minimum` of a JSON Schema.
AtLeastOne = Annotated[float, Field(ge=1.0, allow_inf_nan=False), BeforeValidator(_plain)]
Share = Annotated[float, Field(gt=0.0, le=1.0, allow_inf_nan=False), BeforeValidator(_plain)]
Count = Annotated[int, Field(ge=1), BeforeValidator(_whole)]
SmallCount = Annotated[int, Field(ge=1, le=1_000_000), BeforeValidator(_whole)]
