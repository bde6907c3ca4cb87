"""Read a YAML file into a pydantic model; what is wrong with it becomes sentences.

Apart from `edgegpt.config.yaml_reader`, because the robot's process loads no pydantic.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import pydantic

from edgegpt.config.messages import Mistake, listed, missing_key, unknown_key, wrong_value
from edgegpt.config.yaml_kinds import other_kind
from edgegpt.config.yaml_reader import decode_yaml, read_bytes
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

MISTAKES = "mistakes"  # type of a pydantic error that brings its own, a list of Mistake under this key


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


def _mistakes(error: Any, model: type[pydantic.BaseModel]) -> Sequence[Mistake]:
    if error["type"] == MISTAKES:
        mistakes: Sequence[Mistake] = error["ctx"][MISTAKES]
        return mistakes
    return [_mistake(error, model)]


def _mistake(error: Any, model: type[pydantic.BaseModel]) -> Mistake:
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        *location, name = error["loc"]
        inside = "".join(f"{part}." for part in location)
        return unknown_key(name, _fields_at(location, model), inside)
    if error["type"] == "missing":
        return missing_key(key)
    message = str(error["msg"]).removeprefix("Value error, ")
    if not key:
        return Mistake(message)
    message = re.sub(r"^\w+ should ", "must ", message)  # Input, String, List, ...
    for start, plain in _PLAIN.items():
        if message.startswith(start):
            message = plain
    if error["type"] in ("model_type", "model_attributes_type"):
        message += _as_lines(error["input"], _model_at(error["loc"], model))
    if ", got " in message:  # a validator of ours has said it
        return Mistake(f"{key}: {message}")
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
