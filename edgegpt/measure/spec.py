"""Specification and result of one measuring process, exchanged as JSON."""

import math
from dataclasses import dataclass
from typing import Any, Final

from edgegpt.errors import MeasureError
from edgegpt.measure.distribution import Distribution
from edgegpt.system import Memory

BURST: Final = 16  # decode steps that are timed in a row, as in an answer
MIN_ROUNDS: Final = 3
MOST_TIMES: Final = 10  # times the measuring time, at most, to collect the samples asked for
STEADY_REQUESTS: Final = 1000  # by then an allocator has usually stopped growing


@dataclass(frozen=True)
class MeasureSpec:
    """Specification of what one process measures; parts can be left out.

    Whether lengths fit the model's context is checked when the model is loaded.

    Attributes:
        threads: number of threads of onnxruntime and of the bandwidth measurement.
        capacity: context in tokens; None is the model's block_size.
        prompts: prompt lengths at which to measure the time to first token; None is 8, 32, 128 as far as
            they fit and the longest that leaves room for an answer, empty is none.
        fills: tokens in the cache before a burst of decode steps; None is 16, half the context and the most
            that leaves room for the burst, empty is none.
        repeats: samples of each prompt's first token in a round.
        burst: decode steps in one burst; a shorter context shortens it where `fills` is None.
        seconds: measuring time, in rounds over every prompt and fill, after one round to
            warm up; at least MIN_ROUNDS rounds are done.
        first_samples: least samples of each prompt, for which rounds go on up to MOST_TIMES the time.
        token_samples: least samples of each fill, in the same way.
        longest: whether the longest prompt is read once, so that the peak of memory is that of any request;
            with `fills` it always is.
        apart: whether to measure tokenising and drawing, each by itself.
        idle_seconds: seconds over which the CPU use of the idle process is measured; 0 leaves it out.
        requests: short requests of varied lengths, over which memory growth is measured; 0 leaves it out.
        seed: seed of those requests.
        bandwidth: whether to measure how fast this machine reads memory.

    Raises:
        MeasureError: a number is negative or not finite.
    """

    threads: int = 1
    capacity: int | None = None
    prompts: tuple[int, ...] | None = None
    fills: tuple[int, ...] | None = None
    repeats: int = 1
    burst: int = BURST
    seconds: float = 3.0
    first_samples: int = 0
    token_samples: int = 0
    longest: bool = True
    apart: bool = True
    idle_seconds: float = 0.5
    requests: int = 0
    seed: int = 0
    bandwidth: bool = False

    def __post_init__(self) -> None:
        for name in ("seconds", "idle_seconds", "requests", "first_samples", "token_samples"):
            if not 0 <= getattr(self, name) < math.inf:
                raise MeasureError(f"{name} must be a number of at least 0, got {getattr(self, name)!r}")
        for name in ("burst", "repeats"):
            if getattr(self, name) < 1:
                raise MeasureError(f"{name} must be at least 1, got {getattr(self, name)}")

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "MeasureSpec":
        """Return the spec from `dataclasses.asdict` after a round trip through JSON, without pydantic."""
        tuples = {key: tuple(data[key]) for key in ("prompts", "fills") if data[key] is not None}
        return cls(**{**data, **tuples})


@dataclass(frozen=True)
class Bandwidth:
    """Memory bandwidth of this machine: the best of several passes.

    Attributes:
        buffer_bytes: size of the buffer that was read over and over.
        bytes_per_second: rate of all threads together.
    """

    buffer_bytes: int
    bytes_per_second: float


@dataclass(frozen=True)
class ProcessResult:
    """Measurements of one file in one fresh process; None for one that the system does not report.

    Attributes:
        import_ms: importing edgegpt, numpy, onnxruntime and the rest.
        load_ms: from the start of the imports until the warmed-up model is ready for its first request;
            the interpreter's own start is not in it.
        load_waited_ms: part of the time until then, including the interpreter's start, in which other work
            had the process's core.
        first_reply_ms: the first request, text to text: a prompt of one word, 8 tokens at most.
        imported: memory after the imports, before the file was opened.
        loaded: memory when the model was ready.
        worked: memory after all timed requests, the longest prompt among them.
        peak_rss_bytes: peak resident memory until then; the process holds nothing yet that a robot's
            would not.
        cache_bytes: size of the KV cache, part of `worked`.
        idle_cpu_percent: CPU use in percent of one core, while the loaded process is idle.
        first_token: time to first token by prompt length; see edgegpt.measure.timing for its definition.
        token: time of a decode step by tokens in the cache before the burst; `burst` samples a round.
        tokenise: text to ids of a prompt of `tokenise_tokens` tokens; None where it was left out.
        tokenise_tokens: length of that prompt.
        draw: choosing one token with temperature 1 and top_p 0.95, which greedy requests do not do; None
            where it was left out.
        round_ms: the median time in each round, in order: of decode steps at the smallest fill, or of first
            tokens after the shortest prompt where no fill was measured.
        seconds: duration of the rounds.
        waited_percent: share of that time in which the main thread was ready to run but other work, or
            another virtual machine on the same host, had its core; of the load where no round was done.
        rss_slope_kb_per_1000: growth of private memory in 1000 requests, see edgegpt.measure.leak.
        watched_requests: number of requests it was measured over; fewer than asked for on a slow model.
        bandwidth: memory bandwidth for a buffer larger than the last cache, and for one as large as the file.
    """

    import_ms: float
    load_ms: float
    load_waited_ms: float | None
    first_reply_ms: float
    imported: Memory | None
    loaded: Memory | None
    worked: Memory | None
    peak_rss_bytes: int | None
    cache_bytes: int
    idle_cpu_percent: float | None
    first_token: dict[int, Distribution]
    token: dict[int, Distribution]
    tokenise: Distribution | None
    tokenise_tokens: int
    draw: Distribution | None
    round_ms: tuple[float, ...]
    seconds: float
    waited_percent: float | None
    rss_slope_kb_per_1000: float | None
    watched_requests: int
    bandwidth: tuple[Bandwidth, ...]
