"""How far a file is from what the machine's memory allows (Williams, Waterman and Patterson 2009).

Work are the multiplications and additions of matrix products, whatever the precision of the weights
(edgegpt.accounting); traffic are the bytes that have to be read at least once. The roof of arithmetic
itself is a profile's (edgegpt.report.predicted); without one, the fastest prompt is a lower bound of it.

What a board's profile says of this file: the roof of arithmetic, and predictions beside measurements.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, log

import numpy as np

from edgegpt.accounting import account
from edgegpt.config import ModelConfig
from edgegpt.contract import ENGINE
from edgegpt.measure import Bench, threads_text
from edgegpt.prediction import ModelWork, OpCosts, Predictor, Target, caveats, is_here
from edgegpt.quantization import AUTO, matrices
from edgegpt.report.facts import Facts, Weights
from edgegpt.runtime import PREFILL_CHUNK


@dataclass(frozen=True)
class Point:
    """One kind of work.

    Attributes:
        tokens: in the prompt, or in the cache before a further token.
        flops: of the whole prompt or of the one token.
        bytes: read for it.
        seconds: the median that was measured.
    """

    tokens: int
    flops: int
    bytes: int
    seconds: float

    @property
    def intensity(self) -> float:
        """FLOPs per byte."""
        return self.flops / self.bytes

    @property
    def flops_per_second(self) -> float:
        """What was reached."""
        return self.flops / self.seconds

    @property
    def bytes_per_second(self) -> float:
        """What was reached."""
        return self.bytes / self.seconds


@dataclass(frozen=True)
class Roofline:
    """Further tokens by cache fill, prompts by length."""

    tokens: tuple[Point, ...]
    prompts: tuple[Point, ...]


def roofline(config: ModelConfig, bench: Bench) -> Roofline:
    """Where a measured file stands."""
    return Roofline(
        tokens=tuple(_token(config, bench, fill) for fill in sorted(bench.token)),
        prompts=tuple(_prompt(config, bench, n) for n in sorted(bench.first_token)),
    )


def _token(config: ModelConfig, bench: Bench, fill: int) -> Point:
    flops = account(config, cached_tokens=fill).total.decode_flops
    return Point(fill, flops, bench.bytes_per_token(fill), bench.token[fill].p50 / 1000)


def _prompt(config: ModelConfig, bench: Bench, n: int) -> Point:
    """Weights are read once for each piece of the prompt, and so is what the cache holds by then.

    In the engine target only the last token of a piece goes on behind the last attention: through its
    projection, the last feed-forward network and the head. Attention is counted as the exporter's graph
    computes it at most: every token over all of the prompt.
    """
    pieces = range(0, n, PREFILL_CHUNK)  # tokens in the cache before each
    counted = account(config, prompt_tokens=n)
    total = n * counted.total.prefill_flops
    if bench.file.target == ENGINE:
        d, head = config.n_embd, counted.components[-1]
        behind = 2 * d * d + 16 * d * d + head.prefill_flops
        total -= behind * (n - len(pieces))
    read = sum(bench.bytes_per_token(start) for start in pieces)
    return Point(n, total, read, bench.first_token[n].p50 / 1000)


@dataclass(frozen=True)
class Roof:
    """What the profiled board can do at most with this file.

    Attributes:
        flops_per_second: of the fastest of the file's matrix products, `tokens` rows at once.
        tokens: as many as a piece of a prompt has, or the most that were profiled.
        bytes_per_second: at which `working_set_bytes` are read.
        working_set_bytes: of one token with the cache half full.
    """

    flops_per_second: float
    tokens: int
    bytes_per_second: float
    working_set_bytes: int

    def at(self, intensity: float) -> float:
        """FLOPs a second that work of so many FLOPs per byte can reach."""
        return min(self.flops_per_second, intensity * self.bytes_per_second)


@dataclass(frozen=True)
class Figure:
    """One number that was predicted and measured; `measured` is None where the system does not tell."""

    name: str
    unit: str
    predicted: float
    measured: float | None

    @property
    def off(self) -> float | None:
        """By which share of the measured one the prediction is too high."""
        return None if not self.measured else self.predicted / self.measured - 1


@dataclass(frozen=True)
class Predicted:
    """A profile beside what was measured.

    Attributes:
        name, date, threads: of the profile.
        here: whether it is of this machine, with as many threads as were measured with.
        caveats: what stands against trusting it, a sentence each without a full stop.
        roof: None where the profile is not of here.
        figures: medians; none for a kind of file that a profile does not know.
    """

    name: str
    date: str
    threads: int
    here: bool
    caveats: tuple[str, ...]
    roof: Roof | None
    figures: tuple[Figure, ...]


def predict(target: Target, facts: Facts, weights: Weights, bench: Bench) -> Predicted:
    """What the profile says of a file, beside what was measured of it."""
    doubts = caveats(target)
    same_threads = target.threads == bench.spec.threads
    if not same_threads:
        doubts += (
            f"the profile was made with {threads_text(target.threads)}, this page with {bench.spec.threads}",
        )
    known = facts.target == ENGINE and facts.kv_cache == "fp32"
    if not known:
        doubts += ("profiles know engine files with a float32 cache, so nothing is predicted for this one",)
    here = is_here(target) and same_threads
    return Predicted(
        name=target.name,
        date=target.date,
        threads=target.threads,
        here=here,
        caveats=doubts,
        roof=_roof(target, facts, weights, bench) if here else None,
        figures=tuple(_figures(Predictor(target), facts, weights, bench)) if known else (),
    )


def _roof(target: Target, facts: Facts, weights: Weights, bench: Bench) -> Roof | None:
    """None where the profile, which a person may have written, says that work takes no time."""
    costs = OpCosts(target.products, target.streaming, target.cache_streaming, target.attention, target.nodes)
    tables: dict[tuple[int, int], int] = {}
    for row in target.products:
        tables[row.bits, row.block] = max(row.tokens, tables.get((row.bits, row.block), 0))
    tokens = min(PREFILL_CHUNK, *tables.values())
    fastest = 0.0
    for name, (outputs, inputs) in matrices(facts.config).items():
        if name.startswith("blocks."):  # the others are looked up, or make one row of logits
            us = costs.product_us(weights.bits[name], outputs, inputs, tokens)
            fastest = max(fastest, 2e6 * outputs * inputs * tokens / us if us else inf)
    working_set = bench.bytes_per_token(bench.file.context // 2)
    points = sorted((log(row.working_set_mb), row.gb_s) for row in target.read_bandwidth)
    sizes, rates = zip(*points, strict=True)
    gb_s = float(np.interp(log(working_set / 1e6), sizes, rates))
    return Roof(fastest, tokens, 1e9 * gb_s, working_set) if fastest < inf else None


def _figures(predictor: Predictor, facts: Facts, weights: Weights, bench: Bench) -> Iterator[Figure]:
    work = ModelWork.of(facts.config, weights.bits)
    for n, times in sorted(bench.first_token.items()):
        yield Figure(
            f"first token, prompt of {n}", "ms", predictor.calls.first_token_us(work, n) / 1e3, times.p50
        )
    for n, times in sorted(bench.token.items()):
        yield Figure(f"token, {n} in cache", "ms", predictor.calls.token_us(work, n) / 1e3, times.p50)
    if facts.precision == AUTO:  # what loading a mix costs is not profiled
        return
    whole = predictor.predict(facts.config, facts.precision)
    peak = bench.largest.peak_rss_bytes
    yield Figure("load", "ms", whole.load_ms, bench.of_processes("load_ms").p50)
    yield Figure("peak memory (RSS)", "MB", whole.peak_rss_mb, None if peak is None else peak / 1e6)
