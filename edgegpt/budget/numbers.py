"""Numbers as a budget file takes them: no commas, no powers of ten."""

from decimal import ROUND_CEILING, Context


def plain(value: float) -> str:
    """Every digit that was given: `5000000`, `0.05`."""
    return f"{value:.15g}"


def rounded_up(value: float) -> str:
    """Three digits, never less than the value, so that it keeps what is printed: `0.0515`, `5240000`."""
    return f"{Context(prec=3, rounding=ROUND_CEILING).create_decimal_from_float(value):f}"
