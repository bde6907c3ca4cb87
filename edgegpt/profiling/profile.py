"""Measure all parts of a board profile."""

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Final

from edgegpt.errors import MeasureError
from edgegpt.measure import (
    Machine,
    OnStep,
    beyond_cache_bytes,
    check_threads,
    load_noise,
    measured_noise,
    read_bandwidth,
    this_machine,
)
from edgegpt.prediction import Bandwidth, CallCosts, OpCosts, Target, TargetMachine
from edgegpt.profiling.attention import measure_attention, measure_cache_streaming
from edgegpt.profiling.elementwise import measure_dispatch_overhead, measure_nodes
from edgegpt.profiling.engine_calls import measure_calls
from edgegpt.profiling.load_and_memory import measure_processes
from edgegpt.profiling.matmul import measure_products, measure_streaming
from edgegpt.profiling.timing import Graphs, WriteFile
from edgegpt.system import available_memory_bytes, moment

SECONDS: Final = 45.0  # measuring time; even a slow call is measured a few times

# Shares of the seconds.
_OVERHEAD: Final = 0.01
_NODES: Final = 0.07
_STREAMING: Final = 0.2
_PRODUCTS: Final = 0.3
_CACHE: Final = 0.12
_ATTENTION: Final = 0.12
_CALLS: Final = 0.18
_BANDWIDTH: Final = 0.2  # seconds for each buffer
_BUFFERS_MB: Final = (1, 4, 16, 64)


@dataclass(frozen=True)
class _Here:
    """Scheduling statistics of this process, for `measured_noise`."""

    waited_percent: float | None
    round_ms: tuple[float, ...] = ()


def profile_board(
    graphs: Graphs,
    write_file: WriteFile,
    *,
    name: str | None = None,
    threads: int = 1,
    seconds: float = SECONDS,
    on_step: OnStep = lambda _: None,
) -> Target:
    """Measure everything that a prediction needs, in one to three minutes.

    Args:
        graphs: builds the graphs, as `edgegpt_export.synthetic`.
        write_file: writes whole models, as `edgegpt_export.synthetic.write_random_file`.
        name: name of the board; default from the system.
        threads: number of onnxruntime threads.
        seconds: time for timing operators and calls; fresh processes come on top.
        on_step: called with a short status message.

    Raises:
        MeasureError: threads is not within 1 to the cores of this process, seconds is negative or above
            an hour, or this system does not report the memory of a process.
    """
    check_threads(threads)
    if not 0 <= seconds <= 3600:
        raise MeasureError(f"seconds must be at least 0 and at most 3600, got {seconds:g}")
    before, start = this_machine(), moment()
    on_step("reading memory")
    bandwidth = list(_read_bandwidth(threads))
    on_step("timing norms, GELU, lookups")
    call_us = measure_dispatch_overhead(graphs, threads, seconds * _OVERHEAD)
    nodes = measure_nodes(graphs, threads, call_us, seconds * _NODES)
    on_step("timing matrix products with weights fetched from memory")
    streaming = list(measure_streaming(graphs, threads, call_us, seconds * _STREAMING))
    on_step("timing matrix products by shape, bits and tokens")
    products = list(measure_products(graphs, threads, call_us, streaming, seconds * _PRODUCTS))
    on_step("timing attention by cached and new tokens")
    cache_streaming = list(measure_cache_streaming(graphs, threads, call_us, seconds * _CACHE))
    attention = list(measure_attention(graphs, threads, call_us, cache_streaming, seconds * _ATTENTION))
    on_step("timing small models")
    ops = OpCosts(products, streaming, cache_streaming, attention, nodes)
    calls = measure_calls(write_file, threads, ops, seconds * _CALLS)
    here = _Here(moment().percent_since(start))

    def on_share(share: float) -> None:
        on_step(f"loading files in fresh processes, {share:.0%} done")

    on_share(0.0)
    load, memory, runs = measure_processes(write_file, threads, CallCosts(ops, calls), on_share)
    return Target(
        name=name or _name(before),
        date=date.today().isoformat(),
        threads=threads,
        machine=TargetMachine.of(before),
        noise=[*measured_noise([here], before, threads), *load_noise(runs)],
        read_bandwidth=bandwidth,
        products=products,
        streaming=streaming,
        cache_streaming=cache_streaming,
        attention=attention,
        nodes=nodes,
        calls=calls,
        load=load,
        memory=memory,
    )


def _name(before: Machine) -> str:
    return before.board or before.cpu or platform.machine()


def _read_bandwidth(threads: int) -> Iterator[Bandwidth]:
    largest = beyond_cache_bytes()
    free = available_memory_bytes() or largest
    for size in (*(int(1e6 * mb) for mb in _BUFFERS_MB), largest):
        if size <= free // 4 or size == largest:
            found = read_bandwidth(size, threads, _BANDWIDTH)
            yield Bandwidth(working_set_mb=found.buffer_bytes / 1e6, gb_s=found.bytes_per_second / 1e9)
