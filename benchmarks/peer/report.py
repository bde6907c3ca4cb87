"""Report results as Markdown, as JSON data and as pictures."""

import platform
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from edgegpt.measure import this_machine
from peer.measure import PREFILL, Result
from peer.roster import PeerSpec, version

_HEAD = (
    "| engine | decode step, us: p50 / p99 | p99/p50 | beside edgegpt | "
    f"prefill of {PREFILL}, ms | load, ms | RSS, MB: private + mapped | KL | top-1 | max abs |"
)
NOTES = """
A step is everything from one greedy token to the next: the engine's call, its choice of the token, the
token in Python. "beside edgegpt" is a step's time divided by that of edgegpt with as many bits per weight.
Prefill is the time to the first token; load is the time to open the model, without imports; RSS is that of
the whole process after one burst. KL, top-1 and max abs compare logits with those of edgegpt fp32 at 64
positions, half of them after the peer's own greedy tokens. Threads spin or sleep as each engine does by
default. llama.cpp: float16 cache except for F32, 8-bit head with 4-bit matrices. OpenVINO: float32
inference; its cache is concatenated in states of the model, and the head reads all prompt tokens.
""".strip()

_COLOURS = {32: "#4c72b0", 8: "#55a868", 4: "#dd8452"}  # by bits per weight

Panel = Mapping[PeerSpec, tuple[float, float]]  # each engine's bar, and the end of the line drawn from it


def circumstances(threads: int, rounds: int, results: Sequence[Result]) -> str:
    """Return one line: processor, versions, date, threads, rounds and load of the machine."""
    here = this_machine()
    packages = dict.fromkeys((r.spec.package, version(r.spec)) for r in results)
    versions = ", ".join(f"{name} {number}" for name, number in packages)
    return (
        f"{here.cpu}, {here.architecture}, {here.available_cores} of {here.cores} cores, "
        f"Python {platform.python_version()}, {versions}, {date.today()}. "
        f"Threads: {threads}, rounds: {rounds}, "
        f"load {here.load or 0:.1f} at the end."
    )


def table(size: str, results: Sequence[Result]) -> Iterator[str]:
    """Yield the Markdown lines of one model."""
    ours = {r.spec.bits: float(np.median(r.steps)) for r in results if r.spec.is_ours and r.steps}
    yield f"### {size}\n"
    yield _HEAD
    yield "|---" * _HEAD.count(" | ") + "|---|"
    for result in results:
        if not result.error:
            yield _line(result, ours)
    errors = [f"- {r.spec.name}: {r.error}" for r in results if r.error]
    if errors:
        yield "\nNot timed:\n"
        yield from errors
    yield ""


def data(size: str, threads: int, results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return the results as JSON data, with the time of every step."""
    rows = []
    for result in results:
        fields = asdict(result)
        row = {"size": size, "threads": threads, "version": version(result.spec), "row": fields.pop("spec")}
        rows.append(row | fields)
    return rows


def draw(folder: Path, results: Mapping[str, Sequence[Result]], subtitle: str) -> list[Path]:
    """Draw peers-{decode,prefill,memory}.png with a panel per model; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    done = {size: [r for r in rs if not r.error] for size, rs in results.items()}
    decode = {size: {r.spec: _p50_p99(r.steps) for r in rs} for size, rs in done.items()}
    prefill = {size: {r.spec: _p50_p99(r.prefills) for r in rs} for size, rs in done.items()}
    memory = {size: {r.spec: (r.memory["rss"], r.memory["rss"]) for r in rs} for size, rs in done.items()}
    return [
        _bars(folder / "peers-decode.png", decode, f"decode step, us: p50, line to p99\n{subtitle}"),
        _bars(folder / "peers-prefill.png", prefill, f"prefill of {PREFILL} tokens, ms: p50\n{subtitle}"),
        _bars(folder / "peers-memory.png", memory, f"RSS of the process, MB\n{subtitle}"),
    ]


def _line(result: Result, ours: Mapping[int, float]) -> str:
    p50, p99 = _p50_p99(result.steps)
    bits, parity, memory = result.spec.bits, result.parity, result.memory
    assert parity is not None  # set for every result without an error
    cells = [
        result.spec.name,
        f"{p50:.0f} / {p99:.0f}",
        f"{p99 / p50:.2f}",
        f"{p50 / ours[bits]:.2f}x" if bits in ours else "",
        f"{np.median(result.prefills):.2f}",
        f"{result.start['load_ms']:.0f}",
        f"{memory['rss']:.0f}: {memory['private']:.0f} + {memory['mapped']:.0f}",
        f"{parity.kl:.1e}",
        f"{parity.top1:.0%}",
        f"{parity.max_abs:.1e}",
    ]
    return f"| {' | '.join(cells)} |"


def _bars(path: Path, panels: Mapping[str, Panel], title: str) -> Path:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    bars = max(len(panel) for panel in panels.values())
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(5.8 * len(panels), 1.4 + 0.32 * bars), squeeze=False, layout="constrained"
    )
    for axis, (size, panel) in zip(axes[0], panels.items(), strict=True):
        low = [low for low, _ in panel.values()]
        line = [high - low for low, high in panel.values()]
        # The number is part of the name, where no bar or line can cover it.
        names = [f"{spec.name}  {_short(value)}" for spec, value in zip(panel, low, strict=True)]
        axis.barh(names, low, color=[_COLOURS[spec.bits] for spec in panel], xerr=[np.zeros(len(low)), line])
        # Cut the slowest bars off: a scale that holds them would leave no length to the others.
        axis.set_xlim(0, 3 * float(np.median(low)))
        axis.invert_yaxis()
        axis.set_title(size)
    lines = [textwrap.fill(line, 75 * len(panels)) for line in title.splitlines()]
    figure.suptitle("\n".join(lines), fontsize=9)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return path


def _p50_p99(values: Sequence[float]) -> tuple[float, float]:
    p50, p99 = np.percentile(values, [50, 99])
    return float(p50), float(p99)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
