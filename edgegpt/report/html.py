"""A report as one HTML page that needs nothing else: no request, no script."""

from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from edgegpt.budget.verdict import Verdict
from edgegpt.files import write_text
from edgegpt.measure.bench import INSIDE
from edgegpt.report.charts import charts
from edgegpt.report.report import Report
from edgegpt.report.weights import kind_of
from edgegpt.report.words import FILTERS


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
