"""Read YAML files into checked, frozen values."""

from typing import TYPE_CHECKING

from edgegpt import lazy_names

if TYPE_CHECKING:
    from edgegpt.config.model import ModelConfig as ModelConfig
    from edgegpt.config.schema import (
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
        validate as validate,
    )
    from edgegpt.config.yaml_reader import (
        nearest as nearest,
        parse_yaml as parse_yaml,
        read_bytes as read_bytes,
        read_yaml as read_yaml,
    )

__getattr__ = lazy_names(
    __name__,
    {
        "model": "ModelConfig",
        "schema": (
            "AtLeastOne Count Measured NonNegative Positive Share SmallCount Text "
            "load_yaml parse_model validate"
        ),
        "yaml_reader": "nearest parse_yaml read_bytes read_yaml",
    },
)
