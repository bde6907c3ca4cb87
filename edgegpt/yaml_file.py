"""Read a YAML file, and turn what is wrong with its keys and values into sentences."""

import difflib
import re
import reprlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from edgegpt.errors import ConfigError
from edgegpt.short_cause import short_cause

_LONGEST: Final = 1_000_000  # characters of a text
_MOST_MISTAKES: Final = 10  # that an error lists
_MERGE: Final = "tag:yaml.org,2002:merge"  # `<<: *other`, which is no key


class Mistake(NamedTuple):
    """One thing that is wrong with a mapping.

    Attributes:
        sentence: what it is.
        unknown: a key that there is not, for which `keys` may hold the one that was meant.
        keys: those that there are.
    """

    sentence: str
    unknown: str = ""
    keys: Sequence[str] = ()


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


def unknown_key(key: object, keys: Sequence[str], inside: str = "") -> Mistake:
    """A key that is none of `keys`; `inside` is what stands before it, such as `model.`."""
    return Mistake(f"unknown key {_shown(f'{inside}{key}')}", str(key), keys)


def missing_key(key: str) -> Mistake:
    """A key that must be given."""
    return Mistake(f"the key {key!r} is missing")


def wrong_value(key: str, wanted: str, value: object) -> Mistake:
    """A value that is not what is `wanted`, such as `must be a number`."""
    try:
        given = reprlib.repr(value)
    except ValueError:  # Python writes no whole number of more than 4300 digits
        given = "a number of thousands of digits"
    return Mistake(f"{key} {wanted}, got {given}")


def listed(mistakes: Sequence[Mistake]) -> str:
    """The first mistakes in one line; a hint that many of them share is given once."""
    lines: list[str] = []
    for mistake in mistakes[:_MOST_MISTAKES]:
        hint = nearest(mistake.unknown, mistake.keys)
        given = any(hint in earlier for earlier in lines)
        lines.append(mistake.sentence if given else mistake.sentence + hint)
    if len(mistakes) > _MOST_MISTAKES:
        lines.append(f"and {len(mistakes) - _MOST_MISTAKES} more")
    return "; ".join(lines)


def nearest(key: object, keys: Sequence[str]) -> str:
    """`, did you mean 'n_embd'?`, or the list of valid keys where nothing is near."""
    if near := difflib.get_close_matches(str(key)[:100], keys, n=1):
        return f", did you mean {near[0]!r}?"
    return f"; the keys are {', '.join(keys)}" if keys else ""


def _shown(key: object) -> str:
    text = repr(key)
    return text if len(text) <= 80 else f"{text[:77]}..."
