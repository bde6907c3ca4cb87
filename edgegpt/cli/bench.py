"""`edgegpt bench FILE.onnx`, and a bench as tables."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from edgegpt.cli.output import (
    FileArgument,
    JsonOption,
    ThreadsOption,
    check_out_file,
    measuring,
    megabytes,
    out_file,
    print_json,
    stderr,
    stdout,
    table,
)
from edgegpt.errors import MeasureError, needs
from edgegpt.measure import INSIDE, noise_sentence, threads_text, versions_text

if TYPE_CHECKING:
    from edgegpt.measure import Bench, Distribution
    from edgegpt.system import Memory

_SUFFIXES = (".png", ".svg", ".pdf")


def bench(
    file: FileArgument,
    threads: ThreadsOption = 1,
    seconds: Annotated[
        float, typer.Option(min=0.0, max=3600.0, help="Seconds to measure; a slow model takes longer.")
    ] = 10.0,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", parser=out_file, help="Draw a plot too: .png, .svg or .pdf."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a file in fresh processes: first token, decode step, load time, memory, bandwidth."""
    from edgegpt.measure import MeasureSpec, run_bench as measure

    if plot is not None:
        check_out_file("--plot", plot, _SUFFIXES)
        with needs("report"):
            from edgegpt.measure import save_plot
    with measuring(visible=not as_json) as on_progress:
        result = measure(
            file, MeasureSpec(threads=threads, seconds=seconds, bandwidth=True), on_progress=on_progress
        )
    if as_json:
        print_json(result.to_json())
    else:
        for part in bench_tables(result):
            stdout.print(part)
    if plot is not None:  # last: on a full disk the figures are printed anyway
        try:
            save_plot(result, plot)
        except OSError as e:
            raise MeasureError(f"--plot cannot write {plot}: {e.strerror or e}") from e
        stderr.print(f"Picture: {plot.resolve()}")


_COLUMNS = ("p50", "95 % of p50", "p90", "p99", "max", "p99/p50")


def bench_tables(result: "Bench") -> Iterator[RenderableType]:
    """Yield machine, times, bytes, process, definitions, and whether the machine was quiet."""
    yield _heading(result)
    yield table(
        "Time to first token, ms",
        ["prompt", *_COLUMNS, "tokens/s"],
        [[str(n), *_times(part), f"{1000 * n / part.mean:,.0f}"] for n, part in result.first_token.items()],
    )
    yield table(
        "Decode step, ms",
        ["in cache", *_COLUMNS, "tokens/s"],
        [[str(n), *_times(part), f"{1000 / part.mean:,.0f}"] for n, part in result.token.items()],
    )
    yield _bytes(result)
    yield from _cache_note(result)
    yield _process(result)
    yield "Definitions:"
    for name, text in INSIDE.items():
        yield f"  {name.replace('_', ' ')}: {text}."
    if result.noise:
        yield f"{noise_sentence(result.noise)}."


def _heading(result: "Bench") -> str:
    file, machine, threads = result.file, result.machine, result.spec.threads
    rounds = sum(len(process.round_ms) for process in result.processes)
    facts = [
        machine.board,
        machine.cpu,
        machine.architecture,
        f"{machine.available_cores} of {machine.cores} cores",
        machine.governor and f"governor {machine.governor}",
        None if machine.load is None else f"load {machine.load:.1f} before the start",
    ]
    versions = versions_text(machine.versions)
    return (
        f"{file.path}: {file.target}, {file.precision}, {file.parameters:,} parameters, "
        f"context {file.context}\n"
        f"{', '.join(fact for fact in facts if fact)}\n{versions}\n"
        f"{threads_text(threads)}, {len(result.processes)} processes, "
        f"{rounds} interleaved rounds after one in each process to warm up\n"
    )


def _times(part: "Distribution") -> list[str]:
    interval = part.interval(0.50)
    high = "?" if interval.high == float("inf") else _ms(interval.high)
    return [
        _ms(part.p50),
        f"{_ms(interval.low)}-{high}",
        _ms(part.p90),
        _ms(part.p99),
        _ms(part.max),
        f"{part.jitter:.2f}",
    ]


def _bytes(result: "Bench") -> RenderableType:
    memory, model = (part.bytes_per_second for part in result.bandwidth)
    return table(
        "Bytes that one decode step reads",
        ["in cache", "bytes", "read at", "of memory bandwidth", "of bandwidth at this size"],
        [
            [
                str(n),
                megabytes(result.bytes_per_token(n)),
                _gigabytes(result.bytes_per_second(n)),
                f"{result.bytes_per_second(n) / memory:.0%}",
                f"{result.bytes_per_second(n) / model:.0%}",
            ]
            for n in result.token
        ],
    )


def _cache_note(result: "Bench") -> Iterator[str]:
    memory, model = result.bandwidth
    note = (
        f"Memory bandwidth is {_gigabytes(memory.bytes_per_second)} for a buffer of "
        f"{megabytes(memory.buffer_bytes)}, and {_gigabytes(model.bytes_per_second)} for one of "
        f"{megabytes(model.buffer_bytes)}, as large as the file."
    )
    cache = result.machine.last_level_cache_bytes
    if cache is None:
        note += (
            " The size of the last cache is not known; if the model fits, the first share may exceed 100 %."
        )
    elif result.file.bytes <= cache:
        note += (
            f" The model fits into the last cache of {megabytes(cache)}, so the first share may exceed 100 %."
        )
    if cache is not None and memory.buffer_bytes <= cache:
        note += " There was not enough free memory for a buffer larger than the last cache."
    if result.file.target == "portable":
        note += " A portable file copies its whole cache in each step, which is not counted."
    yield note + "\n"


def _process(result: "Bench") -> RenderableType:
    process = result.largest
    load, first = result.of_processes("load_ms"), result.of_processes("first_reply_ms")
    tokenise, draw = result.of_processes("tokenise"), result.of_processes("draw")
    idle = [p.idle_cpu_percent for p in result.processes if p.idle_cpu_percent is not None]
    rows = [
        ["load: import to ready, ms", _few(load)],
        ["  of which imports, ms", _few(result.of_processes("import_ms"))],
        ["first reply of a process, ms", _few(first)],
        [f"tokenise {process.tokenise_tokens} tokens, p50, ms", _ms(tokenise.p50)],
        ["draw one token, p50, ms", _ms(draw.p50)],
        ["file", megabytes(result.file.bytes)],
        ["peak RSS", "unknown" if process.peak_rss_bytes is None else megabytes(process.peak_rss_bytes)],
        ["  after the imports", _memory(process.imported)],
        ["  when loaded", _memory(process.loaded)],
        ["  after all requests", _memory(process.worked)],
        ["  of which KV cache", megabytes(process.cache_bytes)],
        ["idle CPU, of one core", f"{max(idle):.1f} %" if idle else "not measured"],
    ]
    return table("The process", ["", ""], rows, numbers=False)


def _few(part: "Distribution") -> str:
    return f"{part.p50:.1f} ({min(part.samples):.1f} to {part.max:.1f})"


def _memory(memory: "Memory | None") -> str:
    if memory is None:
        return "unknown"
    private, mapped = megabytes(memory.private_bytes), megabytes(memory.mapped_bytes)
    return f"{megabytes(memory.rss_bytes)}: {private} private, {mapped} mapped"


def _ms(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _gigabytes(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1e9:.1f} GB/s"
