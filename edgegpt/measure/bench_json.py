"""A bench for machines."""

from dataclasses import asdict
from typing import Any, Final

from edgegpt.measure.bench import Bench
from edgegpt.measure.distribution import CONFIDENCE
from edgegpt.measure.spec import ProcessFigures

# What is inside each figure, for the table and the JSON alike.
INSIDE: Final = {
    "first_token": "prompt ids to the first new id: reading the prompt, the check for NaN, argmax; "
    "no tokenising, no drawing, no text; the longest prompt leaves one position for the answer",
    "token": "one id to the next: one call of the graph, the check for NaN, argmax; no drawing, no text",
    "tokenise": "text to ids, which a request pays before its first token",
    "draw": "one token by temperature 1 and top_p 0.95 instead of argmax, which a request that is not "
    "greedy pays for each token on top",
    "load": "from the start of the imports to a warmed-up model; the interpreter's own start is not in it",
    "memory": "private pages were written by the process; mapped ones are files (libraries, mapped weights), "
    "which the system may drop and processes share; the peak is over all requests",
    "bytes": "read by one token: the weights, one row of each embedding that is only looked up, and the "
    "keys and values in the cache; compared with the fastest of several passes over a buffer",
}


def bench_json(result: Bench) -> dict[str, Any]:
    """Everything but the single samples; milliseconds, bytes and bytes a second, as the names say."""
    memory_bandwidth, model_bandwidth = result.bandwidth
    return {
        "file": asdict(result.file),
        "machine": {**asdict(result.machine), "available_cores": result.machine.available_cores},
        "threads": result.plan.threads,
        "seconds": result.plan.seconds,
        "processes": len(result.processes),
        "rounds": sum(len(process.round_ms) for process in result.processes),
        "confidence": CONFIDENCE,
        "first_token_ms": [
            {"prompt_tokens": n, **part.summary(), "prompt_tokens_per_second": 1000 * n / part.mean}
            for n, part in result.first_token.items()
        ],
        "token_ms": [
            {
                "cache_fill": n,
                **part.summary(),
                "tokens_per_second": 1000 / part.mean,
                "bytes_per_token": result.bytes_per_token(n),
                "bytes_per_second": result.bytes_per_second(n),
                "share_of_memory_bandwidth": result.bytes_per_second(n) / memory_bandwidth.bytes_per_second,
                "share_of_model_bandwidth": result.bytes_per_second(n) / model_bandwidth.bytes_per_second,
            }
            for n, part in result.token.items()
        ],
        "tokenise_ms": {
            "prompt_tokens": result.largest.tokenise_tokens,
            **result.of_processes("tokenise").summary(),
        },
        "draw_ms": result.of_processes("draw").summary(),
        "import_ms": result.of_processes("import_ms").summary(),
        "load_ms": result.of_processes("load_ms").summary(),
        "first_reply_ms": result.of_processes("first_reply_ms").summary(),
        "idle_cpu_percent": max((p.idle_cpu_percent or 0.0) for p in result.processes),
        "memory": _memory(result.largest),
        "memory_bandwidth": asdict(memory_bandwidth),
        "model_bandwidth": asdict(model_bandwidth),
        "inside": INSIDE,
        "noise": list(result.noise),
    }


def _memory(process: ProcessFigures) -> dict[str, Any]:
    moments = {"imported": process.imported, "loaded": process.loaded, "worked": process.worked}
    return {
        "peak_rss_bytes": process.peak_rss_bytes,
        **{name: None if moment is None else asdict(moment) for name, moment in moments.items()},
        "kv_cache_bytes": process.cache_bytes,
    }
