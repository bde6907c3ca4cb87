"""What of a model is stored in few bits, decided before the graph is built."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgegpt.config.model import ModelConfig
from edgegpt.quantization import Recipe, recipe
from edgegpt_export.limits import LIMITS, Limits


@dataclass(frozen=True)
class Quantisation:
    """The recipe of one file.

    Attributes:
        precision: its name, `fp32`, `int8`, `int4` or `auto`.
        bits: of every matrix.
        kv_cache: of a number in the cache, `fp32` or `int8`.
        why: how an `auto` recipe was found, as JSON values.
    """

    precision: str
    bits: Recipe
    kv_cache: str = "fp32"
    why: Mapping[str, Any] = field(default_factory=dict)

    @property
    def limits(self) -> Limits:
        """What verification allows; float32 weights with an int8 cache are judged as int8."""
        coarser = self.precision == "fp32" and self.kv_cache == "int8"
        return LIMITS["int8" if coarser else self.precision]

    def to_json(self) -> str:
        """What is stamped into the file; {} where nothing is quantised."""
        if self.precision == "fp32":
            return "{}"
        weights = "symmetric blocks along the input, scales of least squared error"
        return json.dumps({"weights": weights, "bits": dict(self.bits), **self.why}, separators=(",", ":"))


def preset(config: ModelConfig, precision: str, kv_cache: str = "fp32") -> Quantisation:
    """The quantisation of a named precision."""
    return Quantisation(precision, recipe(config, precision), kv_cache)
