"""Measure norms, GELU, additions and lookups, and the fixed cost of a call."""

from collections.abc import Callable
from typing import Final

from edgegpt.prediction import Line, Nodes
from edgegpt.profiling.timing import Graphs, Run, call_rows, fastest_us, fit
from edgegpt.runtime import open_session

_N: Final = 32  # nodes of a graph
_WIDTHS: Final = (64, 256, 1024)
_TOKENS: Final = (1, 16, 64)
_ROWS: Final = 512  # rows of a table
_TABLES: Final = 4


def measure_dispatch_overhead(graphs: Graphs, threads: int, seconds: float) -> float:
    """Return the microseconds of a graph with one small node: what onnxruntime and Python take."""
    session = open_session(graphs.additions(1, 8), threads)
    return fastest_us({None: call_rows(session, 1)}, seconds)[None]


def measure_nodes(graphs: Graphs, threads: int, call_us: float, seconds: float) -> Nodes:
    """Fit a line over the number of values written, for each kind of node."""

    def line(build: Callable[[int, int], bytes], n: int) -> Line:
        runs: dict[tuple[int, int], Run] = {}
        for width in _WIDTHS:
            session = open_session(build(n, width), threads)
            runs |= {(width, tokens): call_rows(session, tokens) for tokens in _TOKENS}
        found = fastest_us(runs, seconds / 5)
        terms = [(1.0, width * tokens / 1e3) for width, tokens in found]
        node, by_values = fit(terms, [(us - call_us) / n for us in found.values()])
        return Line(node_us=node, us_per_1000_values=by_values)

    return Nodes(
        norm=line(graphs.norms, _N),
        gelu=line(graphs.gelus, _N),
        add=line(graphs.additions, _N),
        lookup_32_bits=line(lambda n, width: graphs.lookups(n, _ROWS, width, 32), _TABLES),
        lookup_8_bits=line(lambda n, width: graphs.lookups(n, _ROWS, width, 8), _TABLES),
    )
