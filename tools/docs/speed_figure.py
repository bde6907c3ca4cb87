"""Draw docs/figures/speed.svg: decode step and prefill by engine, from the table in benchmarks/RESULTS.md.

python tools/docs/speed_figure.py
"""

import re
from pathlib import Path
from typing import Any, Final

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

ROOT: Final = Path(__file__).parents[2]
OUT: Final = ROOT / "docs" / "figures" / "speed.svg"

# Rows of the table to draw, and their labels; grouped by bits per weight.
ENGINES: Final = {
    "float32": {
        "edgegpt fp32": "edgegpt",
        "onnxruntime-genai, our fp32 file": "onnxruntime-genai",
        "CTranslate2 float32": "CTranslate2",
        "llama.cpp F32": "llama.cpp",
        "transformers": "transformers",
    },
    "8 bits": {
        "edgegpt int8": "edgegpt",
        "onnxruntime-genai, our int8 file": "onnxruntime-genai",
        "CTranslate2 int8": "CTranslate2",
        "llama.cpp Q8_0": "llama.cpp",
    },
    "4 bits": {
        "edgegpt int4": "edgegpt",
        "onnxruntime-genai, our int4 file": "onnxruntime-genai",
        "llama.cpp Q4_0": "llama.cpp",
    },
}


def figures(results: str, model: str) -> dict[str, tuple[float, float]]:
    """Return engine -> (decode step in us, p50; prefill of 128 tokens in ms) of one model's table."""
    _, _, section = results.partition(f"### Peers: {model}\n")
    rows = re.findall(
        r"^\| ([^|]+) \| (\d+) / \d+ \|[^|]+\|[^|]+\| ([\d.]+) \|", section.partition("###")[0], re.M
    )
    return {name: (float(step), float(prefill)) for name, step, prefill in rows}


def draw(found: dict[str, tuple[float, float]], model: str) -> Any:
    """Return the figure: one panel per quantity, one group of bars per precision."""
    pyplot.rcParams |= {"svg.hashsalt": "edgegpt", "font.family": "sans-serif", "font.size": 11}
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 4.8), sharey=True, layout="constrained")
    names = [(bits, row, label) for bits, group in ENGINES.items() for row, label in group.items()]
    order = list(ENGINES)
    heights = [n + 0.9 * order.index(bits) for n, (bits, _, _) in enumerate(names)]  # a gap between groups
    titles = (f"{model}: decode step, us", f"{model}: prefill of 128 tokens, ms")
    for column, (axis, title) in enumerate(zip(axes, titles, strict=True)):
        values = [found[row][column] for _, row, _ in names]
        colours = ["#2f7d6d" if label == "edgegpt" else "#b3bcc8" for _, _, label in names]
        bars = axis.barh(heights, values, color=colours, height=0.8)
        axis.bar_label(
            bars, [f"{value:,.0f}" if value >= 100 else f"{value:.1f}" for value in values], padding=3
        )
        axis.set_title(title, fontsize=12, loc="left")
        axis.set_xlim(0, 1.15 * max(values))
        axis.set_xticks([])
        axis.spines[["top", "right", "bottom"]].set_visible(False)
    axes[0].set_yticks(heights, [label for _, _, label in names])
    axes[0].tick_params(length=0)
    axes[1].tick_params(length=0)
    for bits in ENGINES:
        first = heights[next(n for n, name in enumerate(names) if name[0] == bits)]
        axes[0].annotate(
            bits,
            (0, first - 0.62),
            xytext=(-6, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            weight="bold",
        )
    axes[0].set_ylim(heights[-1] + 0.6, heights[0] - 1.1)
    figure.supxlabel("one thread; shorter is better", fontsize=10)
    return figure


if __name__ == "__main__":
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    draw(figures(results, "micro"), "micro, 7 M").savefig(OUT, metadata={"Date": None}, facecolor="#ffffff")
