"""The sampling defaults that a checkpoint may bring: sampling.yaml."""

import difflib
from dataclasses import fields
from pathlib import Path
from typing import Any

from edgegpt.checkpoint import SAMPLING
from edgegpt.errors import ConfigError, SamplingError
from edgegpt.sampling import SamplingParams
from edgegpt.yaml_file import read_yaml


def read_sampling(folder: Path) -> dict[str, Any]:
    """The mapping in `folder`/sampling.yaml, checked; empty if there is no such file.

    Raises:
        ConfigError: the file is not YAML, or has a key that is no field of SamplingParams.
        SamplingError: a value is outside its range.
    """
    path = folder / SAMPLING
    if not path.exists():
        return {}
    mapping = read_yaml(path)
    names = [field.name for field in fields(SamplingParams)]
    for key in mapping:
        if key not in names:
            near = difflib.get_close_matches(str(key), names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(names)}"
            raise ConfigError(f"{path}: unknown key {key!r}, {hint}")
    try:
        SamplingParams(**mapping)
    except SamplingError as e:
        raise SamplingError(f"{path}: {e}") from e
    return mapping
