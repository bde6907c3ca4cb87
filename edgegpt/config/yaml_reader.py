"""Read a YAML file into a mapping: strict about keys, lenient about numbers."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from edgegpt.errors import ConfigError, first_line
from edgegpt.files import is_stream

_LONGEST: Final = 4_000_000  # bytes; a larger file was given by mistake
_MERGE: Final = "tag:yaml.org,2002:merge"  # `<<: *other`, not a key


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader that refuses duplicate keys and reads `1e-3` as a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == _MERGE:
                continue
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                problem = f"the key {key!r} occurs twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


# YAML 1.1 requires a dot in the mantissa and a sign in the exponent; YAML 1.2 does not.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"),
    list("-+0123456789."),
)


def read_yaml(path: Path) -> dict[str, Any]:
    """Read one YAML mapping; raises ConfigError with the file's name in it."""
    return decode_yaml(read_bytes(path), str(path))


def read_bytes(path: Path) -> bytes:
    """Read the bytes of a YAML file; raises ConfigError with the file's name in it."""
    try:
        if is_stream(path):
            raise ConfigError(f"{path} is a pipe or a device, expected a YAML file; save it as a file")
        with path.open("rb") as file:
            content = file.read(_LONGEST + 1)
    except FileNotFoundError as e:
        if path.is_symlink():
            raise ConfigError(f"{path} is a link to {path.readlink()}, which does not exist") from e
        raise ConfigError(f"{path} does not exist{_shipped(path.name)}") from e
    except IsADirectoryError as e:
        raise ConfigError(f"{path} is a folder, expected a YAML file") from e
    except OSError as e:
        raise ConfigError(f"{path} cannot be read: {e.strerror or e}") from e
    if len(content) > _LONGEST:
        raise ConfigError(f"{path} is longer than {_LONGEST / 1e6:g} MB, expected a YAML file")
    return content


def _shipped(name: str) -> str:
    """Return a hint where `name` is that of a file in configs/, such as `raspberry-pi-5`."""
    folders = ("budgets", "models", "targets", "training")
    files = (Path("configs", folder, f"{name}.yaml") for folder in folders)
    return next((f", did you mean {file}?" for file in files if file.is_file()), "")


def decode_yaml(content: bytes, source: str) -> dict[str, Any]:
    """Parse the bytes of one YAML mapping; raises ConfigError that names `source`."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as e:
        raise ConfigError(f"{source} is not text, expected YAML: `key: value` lines in UTF-8") from e
    return parse_yaml(text, source)


def parse_yaml(text: str, source: str) -> dict[str, Any]:
    """Parse one YAML mapping; raises ConfigError that names `source` and the line."""
    try:
        data = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as e:
        line = e.problem_mark.line + 1 if e.problem_mark else "?"
        raise ConfigError(f"{source}, line {line}: not valid YAML: {e.problem}") from e
    except Exception as e:  # PyYAML passes on what a constructor raises, as for a month 13
        raise ConfigError(f"{source}: not valid YAML: {first_line(e)}") from e
    if data is None:
        raise ConfigError(f"{source} is empty, expected `key: value` lines")
    if not isinstance(data, dict):
        raise ConfigError(f"{source}: expected `key: value` lines, got {type(data).__name__}")
    return data


def nearest(key: object, keys: Sequence[str]) -> str:
    """Return `, did you mean 'n_embd'?`, or the list of valid keys where none is near."""
    import difflib  # imported lazily: needed only for error messages

    if near := difflib.get_close_matches(str(key)[:100], keys, n=1):
        return f", did you mean {near[0]!r}?"
    return f"; the keys are {', '.join(keys)}" if keys else ""
