"""Read a YAML file into a mapping.

The project's kinds of YAML file, told apart by their keys: somebody may have given one for another.
"""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import yaml

from edgegpt.config.messages import shown
from edgegpt.errors import ConfigError, first_line
from edgegpt.files import is_stream

_LONGEST: Final = 1_000_000  # characters of a text
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
                    None, None, f"the key {shown(key)} stands there twice", key_node.start_mark
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
    return decode_yaml(read_bytes(path), str(path))


def read_bytes(path: Path) -> bytes:
    """A config as it lies there, or more than any is long; raises ConfigError with the file's name in it."""
    try:
        if is_stream(path):
            raise ConfigError(f"{path} is a pipe or a device, expected a YAML file; save it as a file")
        with path.open("rb") as file:
            return file.read(4 * _LONGEST + 1)  # a character has at most four bytes
    except FileNotFoundError as e:
        if path.is_symlink():
            raise ConfigError(f"{path} is a link to {path.readlink()}, which does not exist") from e
        raise ConfigError(f"{path} does not exist{_meant(path)}") from e
    except IsADirectoryError as e:
        raise ConfigError(f"{path} is a folder, expected a YAML file") from e
    except (OSError, ValueError) as e:  # ValueError: a NUL in the name
        raise ConfigError(f"{path} cannot be read: {getattr(e, 'strerror', None) or e}") from e


def _meant(path: Path) -> str:
    """A hint for who gives a name alone, such as `raspberry-pi-5`: the file of it that the project brings."""
    if path.suffix or path.parent != Path():
        return ""
    for folder in ("budgets", "models", "targets", "training"):
        if (file := Path("configs", folder, f"{path.name}.yaml")).is_file():
            return f", did you mean {file}?"
    return "; expected the path of a YAML file, such as those in configs/"


def decode_yaml(content: bytes, source: str) -> dict[str, Any]:
    """Parse the bytes of one YAML mapping; raises ConfigError that names `source`."""
    try:
        text = content[: 4 * _LONGEST].decode("utf-8")
    except UnicodeDecodeError as e:
        raise ConfigError(f"{source} is no text file, expected YAML: `key: value` lines in UTF-8") from e
    return parse_yaml(text, source)


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
        raise ConfigError(f"{source}: not valid YAML: a value does not fit its type: {first_line(e)}") from e
    if data is None:
        raise ConfigError(f"{source} is empty, expected `key: value` lines")
    if not isinstance(data, dict):
        raise ConfigError(f"{source}: expected `key: value` lines, got {type(data).__name__}")
    return data


# By the name of the class: what it is called, and keys that no other kind has.
KINDS: Final[dict[str, tuple[str, frozenset[str]]]] = {
    "Budget": (
        "a budget (as in configs/budgets/)",
        frozenset(
            {"parameters", "artifact_mb", "kv_cache_mb", "peak_rss_mb", "load_ms", "ttft_ms", "token_ms"}
        )
        | {"jitter", "idle_cpu_percent", "rss_slope_kb_per_1000", "accuracy", "board"},
    ),
    "Target": (
        "a profile of a board (see `edgegpt profile`)",
        frozenset({"machine", "read_bandwidth", "products", "streaming", "cache_streaming", "attention"}),
    ),
    "ModelConfig": (
        "a model config (as in configs/models/)",
        frozenset({"vocab_size", "block_size", "n_layer", "n_head", "n_embd"}),
    ),
    "RunConfig": (
        "a training run (as in configs/training/)",
        frozenset({"out", "train", "validation", "steps", "batch_tokens", "learning_rate"}),
    ),
}


def other_kind(keys: Collection[object], wanted: str) -> str:
    """`a budget, not a profile of a board` where the keys are those of another kind, and else nothing.

    One key may be a slip, so it takes two of the other kind, or all but `name` and `threads`.
    """
    own_name, own_keys = KINDS.get(wanted, ("", frozenset()))
    if not own_name or own_keys & set(keys):
        return ""
    for kind, (name, telling) in KINDS.items():
        told = telling & set(keys)
        if kind != wanted and (len(told) > 1 or (told and told == set(keys) - {"name", "threads"})):
            return f"{name.partition(' (')[0]}, not {own_name}"
    return ""
