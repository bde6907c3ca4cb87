"""Read a YAML file into a pydantic model, and turn what is wrong with it into sentences."""

import difflib
import re
import reprlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import pydantic
import yaml

from edgegpt.errors import ConfigError
from edgegpt.short_cause import short_cause

Model = TypeVar("Model", bound=pydantic.BaseModel)

_LONGEST: Final = 1_000_000  # characters of a text
_MOST_MISTAKES: Final = 10  # that an error lists
_MERGE: Final = "tag:yaml.org,2002:merge"  # `<<: *other`, which is no key


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, plus what people expect: `1e-3` is a number, a key stands once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == _MERGE:
                continue
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {_shown(key)} stands there twice", node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


# YAML 1.1 wants a dot in the mantissa and a sign in the exponent; YAML 1.2 and people do not.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"),
    list("-+0123456789."),
)


def load_yaml(path: str | Path, model: type[Model]) -> Model:
    """Read `path` and validate it as `model`.

    Raises:
        ConfigError: the file cannot be read, is not a YAML mapping, or does not fit the model. The
            message names the file, every offending key and its value.
    """
    path = Path(path)
    return validate(read_yaml(path), model, source=str(path))


def read_yaml(path: Path) -> dict[str, Any]:
    """Read one YAML mapping; raises ConfigError with the file's name in it."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_LONGEST + 1)
    except FileNotFoundError as e:
        if path.is_symlink():
            raise ConfigError(f"{path} is a link to {path.readlink()}, which does not exist") from e
        raise ConfigError(f"{path} does not exist") from e
    except IsADirectoryError as e:
        raise ConfigError(f"{path} is a folder, expected a YAML file") from e
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"{path} cannot be read: {e}") from e
    return parse_yaml(text, source=str(path))


def parse_yaml(text: str, source: str) -> dict[str, Any]:
    """Parse one YAML mapping; raises ConfigError that names `source` and the line."""
    if len(text) > _LONGEST:
        raise ConfigError(f"{source} is longer than {_LONGEST:,} characters, which no config is")
    try:
        data = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as e:
        line = e.problem_mark.line + 1 if e.problem_mark else "?"
        raise ConfigError(f"{source}, line {line}: not valid YAML: {e.problem}") from e
    except yaml.YAMLError as e:
        raise ConfigError(f"{source}: not valid YAML: {' '.join(str(e).split())}") from e
    except RecursionError as e:  # such as 10,000 brackets
        raise ConfigError(f"{source}: not valid YAML: it is nested too deeply") from e
    # What PyYAML lets through, for a month 13, `!!bool maybe`, `!!int ""`, `!!timestamp x`, `? [a]`
    except (ValueError, LookupError, AttributeError, TypeError, ArithmeticError) as e:
        raise ConfigError(f"{source}: not valid YAML: a value does not fit its type: {short_cause(e)}") from e
    if data is None:
        raise ConfigError(f"{source} is empty, expected `key: value` lines")
    if not isinstance(data, dict):
        raise ConfigError(f"{source}: expected `key: value` lines, got {type(data).__name__}")
    return data


def validate(data: dict[str, Any], model: type[Model], source: str) -> Model:
    """Validate a mapping; raises ConfigError with one line for each thing that is wrong."""
    try:
        return model.model_validate(data)
    except pydantic.ValidationError as e:
        errors = e.errors(include_url=False)
        lines: list[str] = []
        for error in errors[:_MOST_MISTAKES]:
            line, hint = _sentence(error, model)
            given = any(hint in earlier for earlier in lines)
            lines.append(line if given else line + hint)
        if len(errors) > _MOST_MISTAKES:
            lines.append(f"and {len(errors) - _MOST_MISTAKES} more")
        raise ConfigError(f"{source}: " + "; ".join(lines)) from e


def nearest(key: object, keys: Sequence[str]) -> str:
    """`, did you mean 'n_embd'?`, or the list of valid keys where nothing is near."""
    if near := difflib.get_close_matches(str(key)[:100], keys, n=1):
        return f", did you mean {near[0]!r}?"
    return f"; the keys are {', '.join(keys)}" if keys else ""


def _sentence(error: Any, model: type[pydantic.BaseModel]) -> tuple[str, str]:
    """What is wrong, and a hint that needs to be given only once."""
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        *location, name = error["loc"]
        return f"unknown key {_shown(key)}", nearest(name, _fields_at(location, model))
    if error["type"] == "missing":
        return f"the key {key!r} is missing", ""
    message = str(error["msg"]).removeprefix("Value error, ")
    if not key:
        return message, ""
    message = message.replace("Input should be", "must be", 1)
    if message.startswith("must be a valid dictionary"):
        message = "must be `key: value` lines"
    if ", got " in message:  # a validator of ours has said it
        return f"{key}: {message}", ""
    return f"{key} {message}, got {reprlib.repr(error['input'])}", ""


def _shown(key: object) -> str:
    text = repr(key)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _fields_at(location: Sequence[str | int], model: type[pydantic.BaseModel] | None) -> list[str]:
    for part in location:
        if isinstance(part, int):  # an element of a list, whose model was found with the list
            continue
        field = model.model_fields.get(part) if model else None
        model = _model_in(field.annotation) if field else None
    return list(model.model_fields) if model else []


def _model_in(annotation: Any) -> type[pydantic.BaseModel] | None:
    """The pydantic model in `Model`, `Model | None`, `list[Model]` or `dict[str, Model]`."""
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)
