"""Charts of the page as inline SVG: text stays text, and colours are those of the page's CSS.

Each is 331 units wide, so that on a phone a unit is about a pixel.
"""

import io
import re
from collections.abc import Callable, Sequence
from math import inf
from typing import Final

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from edgegpt.measure import ProcessResult, draw_first_token, draw_tail, draw_token
from edgegpt.report.facts import Weights
from edgegpt.report.report import Report
from edgegpt.report.roofline import Point, Roof, Roofline

_WIDTH: Final = 4.6  # inches, at 72 units each
# Colours of edgegpt.measure.plot and of this file; the page defines a light and a dark shade of each.
_VARIABLES: Final = {
    "#0072b2": "--blue",
    "#009e73": "--green",
    "#d55e00": "--orange",
    "#cc79a7": "--pink",
    "#56b4e9": "--sky",
    "#e69f00": "--yellow",
    "#000000": "--ink",
    "#dddddd": "--grid",
    "#fefefe": "--paper",
}
_PARTS: Final = ("#0072b2", "#56b4e9", "#009e73", "#e69f00", "#cc79a7", "#d55e00")
_PAPER: Final = "#fefefe"


def charts(report: Report) -> dict[str, Markup]:
    """Return every chart by its name; `memory` is missing where the system does not report it."""
    bench, weights, precision = report.bench, report.weights, report.facts.precision
    bandwidths = [part.bytes_per_second for part in bench.bandwidth]
    roof = None if report.comparison is None else report.comparison.roof
    made = {
        "first_token": _svg("first-token", 2.9, lambda axes: draw_first_token(axes, bench.first_token)),
        "token": _svg("token", 2.9, lambda axes: draw_token(axes, bench.token)),
        "tail": _svg("tail", 2.9, lambda axes: draw_tail(axes, bench.token)),
        "weights": _svg("weights", 2.6, lambda axes: _weights(axes, weights, precision)),
        "roofline": _svg("roofline", 2.9, lambda axes: _roofline(axes, report.roofline, bandwidths, roof)),
    }
    if bench.largest.loaded is not None:
        made["memory"] = _svg("memory", 2.9, lambda axes: _memory(axes, bench.largest))
    return made


def _memory(axes: Axes, process: ProcessResult) -> None:
    """Draw resident memory at each moment, private and mapped, and its peak."""
    moments = {"after the\nimports": process.imported, "when\nloaded": process.loaded}
    moments["after all\nrequests"] = process.worked
    known = {name: memory for name, memory in moments.items() if memory is not None}
    private = [memory.private_bytes / 1e6 for memory in known.values()]
    mapped = [memory.mapped_bytes / 1e6 for memory in known.values()]
    for left, widths, colour, label in (
        (0.0, private, "#0072b2", "private"),
        (private, mapped, "#56b4e9", "mapped"),
    ):
        axes.barh(
            range(len(known)), widths, left=left, height=0.62, color=colour, edgecolor=_PAPER, label=label
        )
    labels, totals = list(known), [memory.rss_bytes / 1e6 for memory in known.values()]
    if process.peak_rss_bytes is not None:
        labels.append("peak")
        totals.append(process.peak_rss_bytes / 1e6)
        axes.barh(len(known), totals[-1], height=0.62, color="#e69f00", edgecolor=_PAPER, label="both")
    _bars(axes, labels, totals)
    axes.set_xlabel("resident memory, MB")
    _legend(axes, 3)


def _weights(axes: Axes, weights: Weights, precision: str) -> None:
    """Draw a stacked bar of components for each precision; the file's own is labelled."""
    names = ["fp32", "int8", "int4"]
    labels = [f"{name}\n(this file)" if name == precision else name for name in names]
    stored = [[getattr(part.named, name) for part in weights.components] for name in names]
    if precision not in names:
        labels.append(f"{precision}\n(this file)")
        stored.append([part.here for part in weights.components])
    totals = [sum(sizes) / 1e6 for sizes in stored]
    left = [0.0] * len(labels)
    places = range(len(labels))
    for part, component in enumerate(weights.components):
        widths = [sizes[part] / 1e6 for sizes in stored]
        if not any(widths):  # a tied head
            continue
        colour = _PARTS[part % len(_PARTS)]
        axes.barh(
            places, widths, left=left, height=0.62, color=colour, edgecolor=_PAPER, label=component.name
        )
        left = [a + b for a, b in zip(left, widths, strict=True)]
    _bars(axes, labels, totals)
    axes.set_xlabel("weights with their scales, MB")
    _legend(axes, 3)


def _roofline(axes: Axes, roofline: Roofline, bandwidths: Sequence[float], roof: Roof | None) -> None:
    """Draw both axes logarithmic: a bandwidth is a line of slope one, up to the roof if it is known."""
    points = (*roofline.tokens, *roofline.prompts)
    low, high = min(p.intensity for p in points) / 2.5, max(p.intensity for p in points) * 2.5
    memory, model = bandwidths
    most = inf if roof is None else roof.flops_per_second
    lines = [(memory, "-", f"memory: {memory / 1e9:.1f} GB/s")]
    if roof is None:
        lines.insert(0, (model, "--", f"this size: {model / 1e9:.1f} GB/s"))
    else:
        lines.insert(0, (roof.bytes_per_second, "--", f"profile: {roof.bytes_per_second / 1e9:.1f} GB/s"))
    for bandwidth, style, label in lines:
        places = [low, *(ridge for ridge in (most / bandwidth,) if low < ridge < high), high]
        allowed = [min(most, place * bandwidth) / 1e9 for place in places]
        axes.plot(places, allowed, style, color="#000000", linewidth=1.2, label=label)
    if roof is not None:
        text, place = f"{most / 1e9:.3g} GFLOP/s", (high, most / 1e9)
        axes.annotate(text, place, (-2, 3), textcoords="offset points", ha="right", va="bottom", fontsize=9)
    _points(axes, roofline.tokens, "o", "#0072b2", "decode step")
    _points(axes, roofline.prompts, "s", "#d55e00", "prompt")
    for i, point in enumerate(roofline.prompts):
        above = i % 2  # the longest are close together
        axes.annotate(
            str(point.tokens),
            (point.intensity, point.flops_per_second / 1e9),
            (0, 6 if above else -6),
            textcoords="offset points",
            ha="center",
            va="bottom" if above else "top",
            fontsize=9,
            color="#d55e00",
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    reached = [p.flops_per_second / 1e9 for p in points]
    highest = max(*reached, low * memory / 1e9) * 4
    axes.set_ylim(min(reached) / 3, highest if roof is None else max(highest, 2.5 * most / 1e9))
    for axis, (least, most) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        ticks = [step * 10.0**power for power in range(-4, 7) for step in (1, 2, 5)]
        ticks = [tick for tick in ticks if least <= tick <= most]
        ticks = ticks if len(ticks) <= 6 else [t for t in ticks if f"{t:e}".startswith("1.0")]
        axis.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        axis.set_minor_locator(NullLocator())
    axes.set_xlabel("FLOPs per byte read")
    axes.set_ylabel("GFLOP/s")
    axes.grid(True, color="#dddddd", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    _legend(axes, 2)


def _bars(axes: Axes, labels: Sequence[str], totals: Sequence[float]) -> None:
    """Label horizontal bars with names and totals, and leave room for them."""
    for place, total in enumerate(totals):
        axes.annotate(f"{total:.3g}", (total, place), (4, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.14 * max(totals))
    axes.grid(True, axis="x", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _points(axes: Axes, points: Sequence[Point], marker: str, colour: str, label: str) -> None:
    axes.plot(
        [point.intensity for point in points],
        [point.flops_per_second / 1e9 for point in points],
        marker,
        color=colour,
        markersize=6,
        label=label,
    )


def _legend(axes: Axes, columns: int) -> None:
    axes.legend(
        frameon=False,
        ncols=columns,
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        handlelength=1.4,
        columnspacing=1.2,
        borderaxespad=0.2,
    )


def _svg(name: str, height: float, draw: Callable[[Axes], None]) -> Markup:
    """Draw a chart and return it as an <svg> element."""
    with mpl.rc_context():
        mpl.rcdefaults()  # ignore the user's matplotlibrc
        mpl.rcParams.update(
            {
                "svg.fonttype": "none",
                "svg.hashsalt": name,
                "text.parse_math": False,
                "font.size": 10,
                "axes.linewidth": 0.8,
            }
        )
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        draw(figure.subplots())
        text = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))  # no namespaces of a metadata block
        figure.savefig(text, format="svg", transparent=True, metadata=nothing)
    return Markup(_inline(text.getvalue(), name))


def _inline(svg: str, name: str) -> str:
    """Remove prolog and namespaces, prefix ids with the chart's name, and use the page's colours."""
    svg = svg[svg.index("<svg") :]
    _, _, inside = svg.partition(">")
    (box,) = re.findall(r'viewBox="([^"]+)"', svg.partition(">")[0])
    inside = re.sub(r'\bid="', f'id="{name}-', inside)
    inside = re.sub(r'(href="|url\()#', rf"\g<1>#{name}-", inside).replace("xlink:href=", "href=")
    for colour, variable in _VARIABLES.items():
        inside = re.sub(rf"\b(fill|stroke): {colour}", rf"\1: var({variable})", inside)
    return f'<svg viewBox="{box}" aria-hidden="true" focusable="false">{inside}'
