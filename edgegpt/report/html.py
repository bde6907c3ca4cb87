"""Render a report as one self-contained HTML page: no network request, no script."""

import re
from collections.abc import Callable
from math import isfinite, isinf
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from edgegpt.budget import Row, Verdict, format
from edgegpt.files import write_text
from edgegpt.measure import INSIDE, Distribution, noise_sentence, threads_text
from edgegpt.report.charts import charts
from edgegpt.report.facts import kind_of
from edgegpt.report.report import Report

_SPACE: Final = "\N{NO-BREAK SPACE}"


def save_page(report: Report, path: Path) -> None:
    """Write the page, whole or not at all; raise OSError."""
    write_text(path, page(report))


def page(report: Report) -> str:
    """Return the page as HTML. Names from a file, a budget or a profile are escaped."""
    environment = Environment(
        loader=PackageLoader("edgegpt.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= _FILTERS
    return environment.get_template("page.html").render(
        report=report,
        charts=charts(report),
        layers=_layers(report),
        verdicts=Verdict,
        inside=INSIDE,
    )


def number(value: float) -> str:
    """Return three significant digits; whole numbers have all: `0.365`, `12.3`, `7,760,000`, `1.9e-5`."""
    if not isfinite(value):
        return str(value)
    size = abs(value)
    if size < 1e12 and (value == int(value) or size >= 999.5):
        return f"{value:,.0f}"
    if 0.001 <= size < 1000:
        return f"{value:#.3g}".removesuffix(".")
    digits, _, power = f"{value:.1e}".partition("e")
    return f"{digits}e{int(power)}"


def size(n: float) -> str:
    """Return bytes with their unit: `12 bytes`, `12.3 kB`, `7.76 MB`."""
    value, unit = (n, "bytes") if n < 1000 else (n / 1e3, "kB") if n < 1e5 else (n / 1e6, "MB")
    return f"{number(value)}{_SPACE}{unit}"


def million(n: float) -> str:
    """Return a large count: `32,192`, `1.90 M`, `1.20 G`."""
    return number(n) if n < 1e5 else f"{number(n / 1e6)} M" if n < 1e9 else f"{number(n / 1e9)} G"


def percent(share: float) -> str:
    """Return a share as `96.3 %`; four digits, so that 0.9996 is not shown as 100 %."""
    return f"{100 * share:.4g}{_SPACE}%"


def interval(part: Distribution) -> str:
    """Return the confidence interval of the median: `0.363 to 0.367`."""
    return _range(part.interval(0.50).low, part.interval(0.50).high)


def breakable(text: str) -> Markup:
    """Return a name that may be broken after `_`, `.`, `-` and `/`, as on a phone."""
    return Markup("<wbr>").join(escape(part) for part in re.split("(?<=[_./-])", text))


def budget_value(row: Row) -> str:
    """Return the measured value of a limit."""
    return "not measured" if row.estimate is None else number(row.estimate.value)


def budget_range(row: Row) -> str:
    """Return the interval of a measured value; empty for one that is counted."""
    estimate = row.estimate
    return "" if estimate is None or estimate.low == estimate.high else _range(estimate.low, estimate.high)


def _range(low: float, high: float) -> str:
    return f"{number(low)} to {'?' if isinf(high) else number(high)}"


def _layers(report: Report) -> list[dict[str, int]]:
    """Return the bits of each matrix by block; empty unless blocks differ."""
    if not report.weights.mixed:
        return []
    layers: list[dict[str, int]] = [{} for _ in range(report.facts.config.n_layer)]
    for name, bits in report.weights.bits.items():
        if name.startswith("blocks."):
            layers[int(name.split(".")[1])][kind_of(name)] = bits
    return layers


_FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "number": number,
    "size": size,
    "million": million,
    "percent": percent,
    "interval": interval,
    "breakable": breakable,
    "threads": threads_text,
    "noise_sentence": noise_sentence,
    "budget_limit": format.limit,
    "budget_margin": format.margin,
    "budget_value": budget_value,
    "budget_range": budget_range,
}
