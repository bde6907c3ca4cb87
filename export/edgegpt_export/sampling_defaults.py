"""The sampling defaults that a checkpoint may bring: sampling.yaml."""

import reprlib
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from edgegpt.config.messages import nearest
from edgegpt.config.yaml_reader import read_yaml
from edgegpt.errors import ConfigError, SamplingError
from edgegpt.runtime.sampling import SamplingParams

SAMPLING: Final = "sampling.yaml"


def read_sampling(folder: Path) -> dict[str, Any]:
    """The mapping in `folder`/sampling.yaml, checked; empty if there is no such file.

    Raises:
        ConfigError: the file is not YAML, or has a key that is no field of SamplingParams.
        SamplingError: a value is outside its range.
    """
    path = folder / SAMPLING
    if not path.exists() and not path.is_symlink():
        return {}
    mapping = read_yaml(path)
    names = [field.name for field in fields(SamplingParams)]
    for key in mapping:
        if key not in names:
            raise ConfigError(f"{path}: unknown key {reprlib.repr(key)}{nearest(key, names)}")
    try:
        SamplingParams(**mapping)
    except SamplingError as e:
        raise SamplingError(f"{path}: {e}") from e
    if not isinstance(mapping.get("stop", []), str | list):  # YAML has sets too, JSON does not
        stop = reprlib.repr(mapping["stop"])
        raise SamplingError(f"{path}: stop must be a string or a list of strings, got {stop}")
    return mapping
