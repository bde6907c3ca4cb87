"""Figures made by hand, so that what a table, a picture or a page says of them is known."""

from dataclasses import replace
from typing import Any

from edgegpt.measure import Distribution, Machine, ProcessResult
from edgegpt.system import Memory

MACHINE = Machine(
    cpu="Hand CPU",
    board=None,
    architecture="x86_64",
    system="Linux",
    cores=4,
    affinity=4,
    quota=None,
    load=0.1,
    governor="performance",
    last_level_cache_bytes=8_000_000,
    memory_bytes=4_000_000_000,
    versions={"python": "3", "edgegpt": "0", "onnxruntime": "1", "numpy": "2"},
)
TWO_MS = Distribution((2.0,) * 98 + (3.0, 5.0))
FIGURES = ProcessResult(
    import_ms=100.0,
    load_ms=150.0,
    load_waited_ms=0.0,
    first_reply_ms=5.0,
    imported=Memory(50_000_000, 30_000_000, 20_000_000),
    loaded=Memory(60_000_000, 38_000_000, 22_000_000),
    worked=Memory(62_000_000, 40_000_000, 22_000_000),
    peak_rss_bytes=63_000_000,
    cache_bytes=1_000_000,
    idle_cpu_percent=0.1,
    first_token={8: Distribution((4.0,))},
    token={50: TWO_MS},
    tokenise=Distribution((0.02,)),
    tokenise_tokens=26,
    draw=Distribution((0.03,)),
    round_ms=(2.0,),
    seconds=0.2,
    waited_percent=0.0,
    rss_slope_kb_per_1000=None,
    watched_requests=0,
    bandwidth=(),
)

# A system that reports neither memory nor processor use, nor much of its machine.
BLIND: dict[str, Any] = dict.fromkeys(("imported", "loaded", "worked", "peak_rss_bytes", "idle_cpu_percent"))
SILENT = replace(MACHINE, load=None, governor=None, last_level_cache_bytes=None, memory_bytes=None)
