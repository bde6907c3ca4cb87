"""Norms, GELU, additions, lookups; and what one call of any graph costs."""

from collections.abc import Callable
from typing import Final

from edgegpt.prediction import Line, Nodes
from edgegpt.profiling.graphs import Graphs, Run, rows
from edgegpt.profiling.timing import fastest_us, fit
from edgegpt.runtime import open_session

_N: Final = 32  # nodes of a graph
_WIDTHS: Final = (64, 256, 1024)
_TOKENS: Final = (1, 16, 64)
_ROWS: Final = 512  # of a table
_TABLES: Final = 4


def measure_call_us(graphs: Graphs, threads: int, seconds: float) -> float:
    """Of a graph with one small node: what onnxruntime and Python take around the nodes."""
    session = open_session(graphs.additions(1, 8), threads)
    return fastest_us({None: rows(session, 1)}, seconds)[None]


def measure_nodes(graphs: Graphs, threads: int, call_us: float, seconds: float) -> Nodes:
    """A line over the values made, for each kind."""

    def line(build: Callable[[int, int], bytes], n: int) -> Line:
        runs: dict[tuple[int, int], Run] = {}
        for width in _WIDTHS:
            session = open_session(build(n, width), threads)
            runs |= {(width, tokens): rows(session, tokens) for tokens in _TOKENS}
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
