"""Pictures of the results: one bar per engine, one panel per model."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from peer.measure import PREFILL, Result

_COLOURS = {32: "#4c72b0", 8: "#55a868", 4: "#dd8452"}


def draw(folder: Path, results: Mapping[str, Sequence[Result]], subtitle: str) -> list[Path]:
    """Write peers-decode.png, peers-prefill.png and peers-memory.png; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    decode = {
        size: {r.row: np.percentile(r.steps, [50, 99]) for r in _timed(rs)} for size, rs in results.items()
    }
    prefill = {
        size: {r.row: np.percentile(r.prefills, [50, 99]) for r in _timed(rs)} for size, rs in results.items()
    }
    memory = {size: {r.row: [r.memory["rss"]] * 2 for r in _timed(rs)} for size, rs in results.items()}
    return [
        _bars(folder / "peers-decode.png", decode, f"decode step, us: p50, line to p99\n{subtitle}"),
        _bars(folder / "peers-prefill.png", prefill, f"prefill of {PREFILL} tokens, ms: p50\n{subtitle}"),
        _bars(folder / "peers-memory.png", memory, f"RSS of the process, MB\n{subtitle}"),
    ]


def _bars(path: Path, panels: Mapping[str, Mapping], title: str) -> Path:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = max(len(panel) for panel in panels.values())
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(5.8 * len(panels), 1.4 + 0.32 * rows), squeeze=False, layout="constrained"
    )
    for axis, (size, panel) in zip(axes[0], panels.items(), strict=True):
        low = [values[0] for values in panel.values()]
        beyond = [values[1] - values[0] for values in panel.values()]
        # The number stands beside the name, where no bar or line can cover it.
        names = [f"{row.name}  {_short(value)}" for row, value in zip(panel, low, strict=True)]
        axis.barh(names, low, color=[_COLOURS[row.bits] for row in panel], xerr=[np.zeros(len(low)), beyond])
        # The slowest engine would press all others against the axis; it runs out of the panel.
        axis.set_xlim(0, 3 * float(np.median(low)))
        axis.invert_yaxis()
        axis.set_title(size)
    lines = [textwrap.fill(line, 75 * len(panels)) for line in title.splitlines()]
    figure.suptitle("\n".join(lines), fontsize=9)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return path


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _timed(results: Sequence[Result]) -> list[Result]:
    return [result for result in results if not result.error]
