"""A report as one HTML page that needs nothing else: no request, no script.

Numbers as the page shows them; each is a filter of the template.
"""

import re
from collections.abc import Callable
from math import isfinite, isinf
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from edgegpt.budget import Row, Verdict, format
from edgegpt.files import write_text
from edgegpt.measure import INSIDE, Distribution, noise_sentence
from edgegpt.report.charts import charts
from edgegpt.report.facts import kind_of
from edgegpt.report.report import Report


def save_page(report: Report, path: Path) -> None:
    """Write the page whole or not at all; raises OSError."""
    write_text(path, page(report))


def page(report: Report) -> str:
    """The page. Names in a file or a budget are somebody else's text, and are escaped."""
    environment = Environment(
        loader=PackageLoader("edgegpt.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    return environment.get_template("page.html").render(
        report=report,
        charts=charts(report),
        layers=_layers(report),
        verdicts=Verdict,
        inside=INSIDE,
    )


def _layers(report: Report) -> list[dict[str, int]]:
    """Bits by kind of matrix for each block, where they are mixed."""
    if not report.weights.mixed:
        return []
    layers: list[dict[str, int]] = [{} for _ in range(report.facts.config.n_layer)]
    for name, bits in report.weights.bits.items():
        if name.startswith("blocks."):
            layers[int(name.split(".")[1])][kind_of(name)] = bits
    return layers


_SPACE: Final = "\N{NO-BREAK SPACE}"


def fixed(n: float, largest: float, unit: float = 1.0) -> str:
    """A number of a column, with as many decimals as keep four digits of the column's largest."""
    return f"{n / unit:,.{decimals(largest / unit)}f}"


def decimals(largest: float) -> int:
    """Three below 10, two below 100, one below 1000, else none."""
    return sum(largest < bound for bound in (10, 100, 1000))


def size(n: float) -> str:
    """Bytes with their unit: `7.76 MB`, `12.3 kB`."""
    if n < 1000:
        return f"{n:,.0f}{_SPACE}bytes"
    value, unit = (n / 1e6, "MB") if n >= 1e5 else (n / 1e3, "kB")
    return f"{value:,.0f}{_SPACE}{unit}" if value >= 100 else f"{value:.3g}{_SPACE}{unit}"


def milliseconds(value: float) -> str:
    """Microseconds are the last digit below 10: `0.365`, `12.3` or `1,204`."""
    if value < 10:
        return f"{value:.3f}"
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def times(value: float, smallest: float) -> str:
    """Milliseconds of a table, with as many decimals as its smallest time needs."""
    return f"{value:,.{3 if smallest < 1 else 2 if smallest < 10 else 1}f}"


def short(value: float) -> str:
    """Three digits, in powers of ten where it is tiny or huge: `0`, `1.9e-5`, `0.0123`, `7,760,000`."""
    if not isfinite(value):
        return str(value)
    size = abs(value)
    if size < 1e12 and (value == int(value) or size >= 999.5):
        return f"{value:,.0f}"
    if 0.001 <= size < 1000:
        return f"{value:.3g}"
    digits, _, power = f"{value:.1e}".partition("e")
    return f"{digits}e{int(power)}"


def percent(share: float) -> str:
    """`96.3 %`."""
    return f"{100 * share:.4g}{_SPACE}%"


def million(n: float) -> str:
    """`1.9 M`, `124 M`, `32,192`."""
    if n < 1e5:
        return f"{n:,.0f}"
    return f"{n / 1e6:.3g} M" if n < 1e9 else f"{n / 1e9:.3g} G"


def interval(part: Distribution, smallest: float) -> str:
    """Of the median: `0.363 to 0.367`."""
    found = part.interval(0.50)
    high = "?" if isinf(found.high) else times(found.high, smallest)
    return f"{times(found.low, smallest)} to {high}"


def breakable(text: str) -> Markup:
    """A name that may be broken after `_`, `.`, `-` and `/`, as on a phone."""
    return Markup("<wbr>").join(escape(part) for part in re.split("(?<=[_./-])", text))


def name(text: str) -> Markup:
    """Somebody else's name: broken anywhere where it must be, and its direction of writing is its own."""
    return Markup('<bdi class="name">{}</bdi>').format(breakable(text))


def command(line: str) -> Markup:
    """A command line whose options are not broken behind their dashes."""
    return Markup(re.sub(r"(?<= )--[a-z-]+", r'<span class="option">\g<0></span>', str(escape(line))))


def budget_range(row: Row) -> str:
    """The interval of a measured figure, empty for one that is counted."""
    estimate = row.estimate
    if estimate is None or estimate.low == estimate.high:
        return ""
    return format.measured(row).partition(" (")[2].rstrip(")")


def budget_margin(row: Row) -> str:
    """With a real minus sign."""
    return format.margin(row).replace("-", "−")


def budget_value(row: Row) -> str:
    """The figure alone."""
    return format.measured(row).partition(" (")[0]


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "fixed": fixed,
    "size": size,
    "ms": milliseconds,
    "times": times,
    "short": short,
    "percent": percent,
    "million": million,
    "interval": interval,
    "breakable": breakable,
    "name": name,
    "command": command,
    "noise_sentence": noise_sentence,
    "budget_limit": format.limit,
    "budget_margin": budget_margin,
    "budget_range": budget_range,
    "budget_value": budget_value,
}
