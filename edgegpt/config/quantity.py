"""Numbers and names as people write them in YAML files; a number's unit is in the key's name."""

import unicodedata
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field


def _plain(value: Any) -> Any:
    if isinstance(value, str) and any(c.isdigit() for c in value):
        raise ValueError(f"must be a number alone, its unit is in the key's name, got {value[:40]!r}")
    return value  # a word is refused by its type


def _whole(value: Any) -> Any:
    """`5e6` is a whole number to whoever writes it."""
    value = _plain(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _shown(value: str) -> str:
    if any(unicodedata.category(c) == "Cc" for c in value):  # they steer a terminal
        raise ValueError(f"must not hold control characters, got {value[:40]!r}")
    return value


# What is shown to people.
Words = Annotated[str, Field(min_length=1), AfterValidator(_shown)]
# Above 0 and finite.
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False), BeforeValidator(_plain)]
_MOST = 1e12  # of what a board is measured to do; sums of products of larger ones would reach infinity
Cost = Annotated[float, Field(ge=0.0, le=_MOST, allow_inf_nan=False), BeforeValidator(_plain)]
Measure = Annotated[float, Field(gt=0.0, le=_MOST, allow_inf_nan=False), BeforeValidator(_plain)]
# A factor by which something grows, and a part of a whole. Each has all of its bounds in one Field: from a
# second one behind the validator pydantic makes no `minimum` of a JSON Schema.
AtLeastOne = Annotated[float, Field(ge=1.0, allow_inf_nan=False), BeforeValidator(_plain)]
Share = Annotated[float, Field(gt=0.0, le=1.0, allow_inf_nan=False), BeforeValidator(_plain)]
Count = Annotated[int, Field(ge=1), BeforeValidator(_whole)]
Few = Annotated[int, Field(ge=1, le=1_000_000), BeforeValidator(_whole)]
