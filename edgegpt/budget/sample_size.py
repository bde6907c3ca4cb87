"""Decide what to measure for a budget and for how long, and advise on more samples."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, isinf
from typing import Final

from edgegpt.budget.budget import Board, Budget
from edgegpt.budget.verdict import Row, rounded_up
from edgegpt.measure import MOST_TIMES, P99_SAMPLES, STEADY_REQUESTS, Machine, MeasureSpec, ProcessResult

MOST_SECONDS: Final = 3600  # longest measuring time of one process
_COUNTED: Final = {"parameters", "artifact_mb", "kv_cache_mb", "accuracy"}  # need no measuring process
_DECODE: Final = {"token_ms", "jitter"}
_IDLE_SECONDS: Final = 0.5
_REPEATS: Final = 4  # first tokens in a round, which has 48 decode steps
_MARGIN: Final = 1.2  # on an advised time


@dataclass(frozen=True)
class SecondsOption:
    """Option with which a user sets the measuring time, for advice.

    Attributes:
        name: name of the option.
        share: share of its value that each process measures.
    """

    name: str = "--seconds"
    share: float = 1.0

    def advice(self, enough: float) -> str:
        """Return the option with a value that gives each process `enough` seconds, as a clause."""
        asked = enough / self.share
        if asked > MOST_SECONDS:
            return f"{self.name} {MOST_SECONDS}, the largest value, would not be enough"
        return f"{self.name} {rounded_up(asked)} would be enough"


SECONDS_OPTION: Final = SecondsOption()  # the option of `edgegpt check`

# How many samples each p99 has in all processes together.
_SAMPLES: Final[dict[str, Callable[[Sequence[ProcessResult]], int]]] = {
    "ttft_ms.p99": lambda processes: sum(part.n for p in processes for part in p.first_token.values()),
    "token_ms.p99": lambda processes: sum(part.n for p in processes for part in p.token.values()),
    "jitter": lambda processes: min(sum(p.token[n].n for p in processes) for n in processes[0].token),
}


def board_limits(budget: Budget) -> dict[str, float]:
    """Return the board's memory as a limit of peak_rss_mb, if the budget has none but measures something.

    A limit that the budget gives is never above the board's memory.
    """
    limits, board = budget.limits(), budget.board
    if board is None or board.memory_mb is None or "peak_rss_mb" in limits:
        return {}
    return {"peak_rss_mb": float(board.memory_mb.value)} if limits.keys() - _COUNTED else {}


def held_limits(budget: Budget) -> dict[str, float]:
    """Return all limits that a file has to keep, by name: the budget's and its board's memory."""
    return budget.limits() | board_limits(budget)


def check_spec(budget: Budget, threads: int, seconds: float, processes: int) -> MeasureSpec | None:
    """Return what each process has to measure for a budget's limits; None where counting is enough.

    Args:
        budget: the limits.
        threads: number of onnxruntime threads.
        seconds: measuring time of each process; up to MOST_TIMES as long for the upper bound of a p99.
        processes: number of processes that measure.
    """
    limits = held_limits(budget)
    keys = {name.partition(".")[0] for name in limits}
    if keys <= _COUNTED:
        return None
    first, decode = budget.ttft_ms is not None, bool(keys & _DECODE)
    bound = ceil(P99_SAMPLES / processes)
    return MeasureSpec(
        threads=threads,
        prompts=() if budget.ttft_ms is None else (budget.ttft_ms.prompt_tokens,),
        fills=None if decode else (),
        repeats=_REPEATS if first else 1,
        seconds=seconds if first or decode else 0.0,
        first_samples=bound if "ttft_ms.p99" in limits else 0,
        token_samples=bound if limits.keys() & {"token_ms.p99", "jitter"} else 0,
        longest="peak_rss_mb" in keys,
        apart=False,
        idle_seconds=_IDLE_SECONDS if "idle_cpu_percent" in keys else 0.0,
        requests=STEADY_REQUESTS if "rss_slope_kb_per_1000" in keys else 0,
    )


def elsewhere(board: Board | None, here: Machine, rows: Sequence[Row]) -> Iterator[str]:
    """Yield a warning where this machine is not the board, so that measurements do not hold for it."""
    measured = any(row.estimate is not None and row.name.partition(".")[0] not in _COUNTED for row in rows)
    if board is not None and measured and (why := board.unlike(here.architecture, here.board)):
        yield (
            f"Times and memory measured here do not hold for {board.description}: {why}; run this check there"
        )


def advice(rows: Sequence[Row], processes: Sequence[ProcessResult], option: SecondsOption) -> Iterator[str]:
    """Yield how to get an upper bound for each limit without one, and a caveat on memory growth."""
    for row in rows:
        if row.estimate is None or row.name not in _SAMPLES or not isinf(row.estimate.high):
            continue
        n = _SAMPLES[row.name](processes)
        spent = sum(p.seconds for p in processes) / len(processes)
        enough = _MARGIN * spent * P99_SAMPLES / n / MOST_TIMES
        yield (
            f"{row.name} has {n} of the {P99_SAMPLES} samples that an upper bound needs; "
            f"{option.advice(enough)}"
        )
    watched = min((p.watched_requests for p in processes), default=0)
    if 0 < watched < STEADY_REQUESTS:
        yield (
            f"rss_slope_kb_per_1000 was measured over {watched} requests in each process, as more would take "
            f"too long; growth that ends before {STEADY_REQUESTS:,} requests looks like a leak there"
        )
