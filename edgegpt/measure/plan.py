"""What one measuring process shall do, and what it found; both go through JSON."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Final

from edgegpt.errors import MeasureError
from edgegpt.measure.distribution import Distribution
from edgegpt.measure.memory import Memory

MIN_ROUNDS: Final = 3


@dataclass(frozen=True)
class Plan:
    """What one measuring process shall do; its parts can be left out.

    Whether lengths fit the model's context is seen when the model is loaded.

    Attributes:
        threads: of onnxruntime, and of the bandwidth measurement.
        capacity: context in tokens; None is the model's block_size.
        prompts: prompt lengths to measure the first token at; None is 8, 32, 128 as far as they fit and
            the longest that leaves room for an answer.
        fills: tokens in the cache before a burst of further tokens; None is 16, half the context and as
            many as leave room for the burst.
        burst: samples of one burst; a shorter context shortens it where `fills` is None.
        seconds: how long to measure times, in rounds that take every prompt and fill in turn after one
            round to warm up; at least MIN_ROUNDS rounds are done.
        idle_seconds: how long to watch the loaded process do nothing; 0 leaves it out.
        generations: short requests of varied lengths after which to see how memory grew; 0 leaves it out.
        bandwidth: whether to measure how fast this machine reads memory.

    Raises:
        MeasureError: a number is negative or not finite, or a list is empty.
    """

    threads: int = 1
    capacity: int | None = None
    prompts: tuple[int, ...] | None = None
    fills: tuple[int, ...] | None = None
    burst: int = 16
    seconds: float = 3.0
    idle_seconds: float = 0.5
    generations: int = 0
    bandwidth: bool = False

    def __post_init__(self) -> None:
        for name in ("seconds", "idle_seconds", "generations"):
            if not 0 <= getattr(self, name) < math.inf:
                raise MeasureError(f"{name} must be a number of at least 0, got {getattr(self, name)!r}")
        if self.burst < 1:
            raise MeasureError(f"burst must be at least 1, got {self.burst}")
        for name in ("prompts", "fills"):
            if getattr(self, name) == ():
                raise MeasureError(f"{name} must hold at least one length; leave it out for the usual ones")


@dataclass(frozen=True)
class Bandwidth:
    """How fast this machine reads memory, in bytes a second: the best of several passes.

    Attributes:
        buffer_bytes: size of the buffer that was read over and over.
        bytes_per_second: of all threads together.
    """

    buffer_bytes: int
    bytes_per_second: float


@dataclass(frozen=True)
class ProcessFigures:
    """What one fresh process measured of one file. What the system cannot tell is None.

    Attributes:
        import_ms: importing edgegpt, numpy, onnxruntime and the rest.
        load_ms: from the start of the imports until the warmed-up model is ready for its first request;
            the interpreter's own start is not in it.
        first_reply_ms: the first request, text to text: a prompt of one word, 8 tokens at most.
        imported: memory after the imports, before the file was opened.
        loaded: memory when the model was ready.
        worked: memory after all requests, the longest prompt among them.
        peak_rss_bytes: the most that was resident until then.
        cache_bytes: of the KV cache, part of `worked`.
        idle_cpu_percent: of one core, while the loaded process does nothing.
        first_token: by prompt length; see edgegpt.measure.timing for what is inside.
        token: by tokens in the cache before the burst; each of `burst` samples a round.
        tokenise: text to ids of a prompt of `tokenise_tokens` tokens.
        tokenise_tokens: length of that prompt.
        draw: choosing one token with temperature 1 and top_p 0.95, which greedy requests do not do.
        round_ms: the median token time at the smallest fill in each round, in order.
        waited_percent: share of the measuring time in which the main thread was ready to run but other
            work had its core.
        rss_slope_kb_per_1000: growth of resident memory per 1000 of `generations`.
        bandwidth: of memory beyond the last cache, and of a buffer as large as the file.
    """

    import_ms: float
    load_ms: float
    first_reply_ms: float
    imported: Memory | None
    loaded: Memory | None
    worked: Memory | None
    peak_rss_bytes: int | None
    cache_bytes: int
    idle_cpu_percent: float | None
    first_token: dict[int, Distribution]
    token: dict[int, Distribution]
    tokenise: Distribution
    tokenise_tokens: int
    draw: Distribution
    round_ms: tuple[float, ...]
    waited_percent: float | None
    rss_slope_kb_per_1000: float | None
    bandwidth: tuple[Bandwidth, ...]


def plan_from_json(data: dict[str, Any]) -> Plan:
    """A Plan as `dataclasses.asdict` and JSON made it."""
    tuples = {key: tuple(data[key]) for key in ("prompts", "fills") if data[key] is not None}
    return Plan(**{**data, **tuples})


def figures_to_json(figures: ProcessFigures) -> dict[str, Any]:
    """For the way through JSON, with every sample."""
    data = asdict(figures)
    for name in ("first_token", "token"):  # JSON's keys would be strings
        data[name] = [[n, part["samples"]] for n, part in data[name].items()]
    for name in ("tokenise", "draw"):
        data[name] = data[name]["samples"]
    return data


def figures_from_json(data: dict[str, Any]) -> ProcessFigures:
    """The way back."""
    made: dict[str, Any] = {}
    for name in ("imported", "loaded", "worked"):
        made[name] = None if data[name] is None else Memory(**data[name])
    for name in ("first_token", "token"):
        made[name] = {n: Distribution(tuple(samples)) for n, samples in data[name]}
    for name in ("tokenise", "draw"):
        made[name] = Distribution(tuple(data[name]))
    made["round_ms"] = tuple(data["round_ms"])
    made["bandwidth"] = tuple(Bandwidth(**part) for part in data["bandwidth"])
    return ProcessFigures(**{**data, **made})
