"""A plot of a bench: three panels one above the other, readable on a phone."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from edgegpt.files import atomic_write
from edgegpt.measure import Bench, Distribution, noise_remark, threads_text

# Okabe and Ito 2008: distinct for colour-blind readers too, and by brightness on paper.
_STYLES: Final = {
    "p50": ("o-", "#0072B2"),
    "p90": ("^-", "#009E73"),
    "p99": ("s--", "#D55E00"),
    "max": ("x:", "#CC79A7"),
}
_FILLS: Final = ("#56B4E9", "#E69F00", "#000000")
# Steps of a logarithmic axis, and finer ones for times that are close together.
_STEPS: Final = ((1, 2, 5), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8))


def save_plot(result: Bench, path: Path) -> None:
    """Write the plot, in the format of the suffix: .png, .svg or .pdf; raises OSError."""
    figure = draw(result)
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=160)


def draw(result: Bench) -> Figure:
    """Return the plot as a matplotlib figure."""
    figure = Figure(figsize=(6.4, 10.4), layout="constrained")
    first, token, tail = figure.subplots(3, 1)
    figure.suptitle(_title(result), fontsize=10, linespacing=1.4)
    draw_first_token(first, result.first_token)
    draw_token(token, result.token)
    draw_tail(tail, result.token)
    for axes, title in ((first, "Time to first token"), (token, "Decode step"), (tail, "Slow decode steps")):
        axes.set_title(title, loc="left")
    return figure


def draw_first_token(axes: Axes, first: dict[int, Distribution]) -> None:
    """Draw the time to first token by prompt length, without a title."""
    _lines(axes, first, ("p50", "p99"))
    axes.set_xscale("log", base=2)
    _ticks(axes, sorted(first))
    axes.set_xlabel("prompt, tokens")
    _finish(axes)


def draw_token(axes: Axes, token: dict[int, Distribution]) -> None:
    """Draw the time of a decode step by tokens in the cache, without a title."""
    _lines(axes, token, ("p50", "p90", "p99", "max"))
    _ticks(axes, sorted(token))
    axes.set_xlabel("tokens in the cache")
    _finish(axes)


def draw_tail(axes: Axes, token: dict[int, Distribution]) -> None:
    """Draw the percentiles up to the slowest step, without a title; each tick is ten times as rare."""
    for i, n in enumerate(sorted(token)):
        times = sorted(token[n].samples)
        # One step in `one_in` is as slow as the k-th or slower.
        one_in = [len(times) / (len(times) - k) for k in range(len(times))]
        axes.plot(one_in, times, drawstyle="steps-pre", color=_FILLS[i % len(_FILLS)], label=f"{n} in cache")
    most = max(2, *(part.n for part in token.values()))
    axes.set_xscale("log")
    axes.set_xlim(1, most)
    marks = [0.5, *(1 - 10.0**-k for k in range(1, 7) if 10**k <= most)]
    axes.set_xticks([1 / (1 - q) for q in marks], [f"{100 * q:.6g} %" for q in marks])
    axes.xaxis.set_minor_locator(NullLocator())
    _log_milliseconds(axes, [time for part in token.values() for time in (min(part.samples), part.max)])
    axes.set_xlabel("share of decode steps that are at least as fast")
    _finish(axes)


def _title(result: Bench) -> str:
    file = result.file
    lines = [
        f"{Path(file.path).name}: {file.parameters / 1e6:.1f} M parameters, {file.precision}, "
        f"{threads_text(result.spec.threads)}",
        f"{result.machine.cpu}, onnxruntime {result.machine.versions['onnxruntime']}, {date.today()}",
    ]
    if result.noise:
        lines.append(f"times are upper bounds{noise_remark(result.noise)}")
    return "\n".join(lines)


def _lines(axes: Axes, parts: dict[int, Distribution], names: Sequence[str]) -> None:
    """Draw one line for each name over the keys of the parts; the points of the first have their numbers."""
    keys = sorted(parts)
    for name in names:
        style, colour = _STYLES[name]
        axes.plot(keys, [getattr(parts[n], name) for n in keys], style, color=colour, label=name)
    _, colour = _STYLES[names[0]]
    for n in keys:
        ms = getattr(parts[n], names[0])
        axes.annotate(
            f"{ms:.3g}",
            (n, ms),
            (0, -8),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize=9,
            color=colour,
        )
    _log_milliseconds(axes, [getattr(parts[n], name) for n in keys for name in names])


def _finish(axes: Axes) -> None:
    axes.grid(True, color="#dddddd", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.08)
    axes.set_ylabel("milliseconds")
    axes.legend(
        frameon=False,
        ncols=4,
        loc="lower right",
        bbox_to_anchor=(1.02, 0.98),
        handlelength=1.5,
        columnspacing=1,
    )


def _ticks(axes: Axes, values: Sequence[int]) -> None:
    axes.set_xticks(list(values), [str(value) for value in values])
    axes.xaxis.set_minor_locator(NullLocator())


def _log_milliseconds(axes: Axes, values: Sequence[float]) -> None:
    """Set a logarithmic axis with plain numbers, also where all values are within one power of ten."""
    low, high = min(values), max(values)
    low, high = low / (high / low) ** 0.15 / 1.1, high * (high / low) ** 0.05 * 1.05  # room for numbers below
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    for steps in _STEPS:
        ticks = [step * 10.0**power for power in range(-5, 7) for step in steps]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) > 2:
            break
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.yaxis.set_minor_locator(NullLocator())
