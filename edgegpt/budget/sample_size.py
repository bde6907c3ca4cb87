"""What has to be measured for a budget, and what more would make it surer."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, isinf
from typing import Final

from edgegpt.budget.budget import Board, Budget
from edgegpt.budget.verdict import Row, rounded_up
from edgegpt.measure import MOST_TIMES, P99_SAMPLES, STEADY_REQUESTS, Machine, MeasureSpec, ProcessResult

MOST_SECONDS: Final = 3600  # of measuring times in one process
_COUNTED: Final = {"parameters", "artifact_mb", "kv_cache_mb", "accuracy"}  # for which no process is needed
_FURTHER_TOKENS: Final = {"token_ms", "jitter"}
_IDLE_SECONDS: Final = 0.5
_REPEATS: Final = 4  # first tokens in a round, which else has 48 further ones beside a single first
_MARGIN: Final = 1.2  # of a time that is to be enough


@dataclass(frozen=True)
class SecondsOption:
    """How somebody asks for more measuring time.

    Attributes:
        name: of the option.
        share: of its value that each process measures for.
    """

    name: str = "--seconds"
    share: float = 1.0

    def says(self, enough: float) -> str:
        """Whether the option can ask for so many seconds in each process, and how."""
        asked = enough / self.share
        if asked > MOST_SECONDS:
            return f"{self.name} {MOST_SECONDS}, the most that can be, would not be enough"
        return f"{self.name} {rounded_up(asked)} would be enough"


SECONDS_OPTION: Final = SecondsOption()  # of `edgegpt check`

# How many samples each p99 rests on, where six processes have them together.
_SAMPLES: Final[dict[str, Callable[[Sequence[ProcessResult]], int]]] = {
    "ttft_ms.p99": lambda processes: sum(part.n for p in processes for part in p.first_token.values()),
    "token_ms.p99": lambda processes: sum(part.n for p in processes for part in p.token.values()),
    "jitter": lambda processes: min(sum(p.token[n].n for p in processes) for n in processes[0].token),
}


def board_limits(budget: Budget) -> dict[str, float]:
    """The board's memory as a limit of peak_rss_mb, where the budget gives none but has something measured.

    A limit that the budget gives is the smaller of both: it may not be above the board's memory.
    """
    limits, board = budget.limits(), budget.board
    if board is None or board.memory_mb is None or "peak_rss_mb" in limits:
        return {}
    return {"peak_rss_mb": float(board.memory_mb.value)} if limits.keys() - _COUNTED else {}


def held_limits(budget: Budget) -> dict[str, float]:
    """All that a file is held to, by its name."""
    return budget.limits() | board_limits(budget)


def check_plan(budget: Budget, threads: int, seconds: float, processes: int) -> MeasureSpec | None:
    """What each of so many processes has to do for a budget's limits; None where counting is enough.

    Args:
        budget: the limits.
        threads: of onnxruntime.
        seconds: of measuring times in each; up to MOST_TIMES as long where the bound of a p99 takes it.
        processes: that measure.
    """
    limits = held_limits(budget)
    keys = {name.partition(".")[0] for name in limits}
    if keys <= _COUNTED:
        return None
    first, further = budget.ttft_ms is not None, bool(keys & _FURTHER_TOKENS)
    bound = ceil(P99_SAMPLES / processes)
    return MeasureSpec(
        threads=threads,
        prompts=() if budget.ttft_ms is None else (budget.ttft_ms.prompt_tokens,),
        fills=None if further else (),
        repeats=_REPEATS if first else 1,
        seconds=seconds if first or further else 0.0,
        first_samples=bound if "ttft_ms.p99" in limits else 0,
        token_samples=bound if limits.keys() & {"token_ms.p99", "jitter"} else 0,
        longest="peak_rss_mb" in keys,
        apart=False,
        idle_seconds=_IDLE_SECONDS if "idle_cpu_percent" in keys else 0.0,
        requests=STEADY_REQUESTS if "rss_slope_kb_per_1000" in keys else 0,
    )


def elsewhere(board: Board | None, here: Machine, rows: Sequence[Row]) -> Iterator[str]:
    """That what was measured here says nothing of the board, where this machine is plainly another one."""
    measured = any(row.estimate is not None and row.name.partition(".")[0] not in _COUNTED for row in rows)
    if board is not None and measured and (why := board.unlike(here.architecture, here.board)):
        yield (
            f"Times and memory that are measured here prove nothing for {board.description}: {why}; run this "
            "check there"
        )


def advice(rows: Sequence[Row], processes: Sequence[ProcessResult], option: SecondsOption) -> Iterator[str]:
    """What would make the verdicts surer, a sentence for each limit that has no upper bound."""
    for row in rows:
        if row.estimate is None or row.name not in _SAMPLES or not isinf(row.estimate.high):
            continue
        n = _SAMPLES[row.name](processes)
        spent = sum(p.seconds for p in processes) / len(processes)
        enough = _MARGIN * spent * P99_SAMPLES / n / MOST_TIMES
        yield (
            f"{row.name} has {n} of the {P99_SAMPLES} samples that an upper bound takes; "
            f"{option.says(enough)}"
        )
    watched = min((p.watched_requests for p in processes), default=0)
    if 0 < watched < STEADY_REQUESTS:
        yield (
            f"rss_slope_kb_per_1000 is of {watched} requests in each process, more would take too long; what "
            f"grows only until some {STEADY_REQUESTS:,} looks like a leak there"
        )
