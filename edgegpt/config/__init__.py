"""Read YAML files into checked, frozen values."""

from typing import TYPE_CHECKING

from edgegpt import lazy_names

if TYPE_CHECKING:
    from edgegpt.config.messages import listed as listed, nearest as nearest
    from edgegpt.config.model import ModelConfig as ModelConfig, problems_in as problems_in
    from edgegpt.config.schema import (
        PROBLEMS as PROBLEMS,
        AtLeastOne as AtLeastOne,
        Count as Count,
        Measured as Measured,
        NonNegative as NonNegative,
        Positive as Positive,
        Share as Share,
        SmallCount as SmallCount,
        Text as Text,
        load_yaml as load_yaml,
        parse_model as parse_model,
    )
    from edgegpt.config.yaml_reader import read_bytes as read_bytes, read_yaml as read_yaml

__getattr__ = lazy_names(
    __name__,
    {
        "messages": "listed nearest",
        "model": "ModelConfig problems_in",
        "schema": (
            "AtLeastOne Count Measured NonNegative PROBLEMS Positive Share SmallCount Text "
            "load_yaml parse_model"
        ),
        "yaml_reader": "read_bytes read_yaml",
    },
)
