"""Measured times next to two bounds: a roofline, and the predictions of a board profile.

Roofline (Williams, Waterman and Patterson 2009): work is the multiplications and additions of matrix
products, at every precision of the weights (edgegpt.accounting); traffic is the bytes that have to be
read at least once. Peak arithmetic comes from a board profile; without one the fastest prompt is a lower
bound of it.
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
    """Work, traffic and time of one prompt or one decode step.

    Attributes:
        tokens: number of tokens in the prompt, or in the cache before the decode step.
        flops: FLOPs of the whole prompt, or of the step.
        bytes: bytes read for it.
        seconds: measured median time.
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
        """Measured arithmetic rate."""
        return self.flops / self.seconds

    @property
    def bytes_per_second(self) -> float:
        """Measured rate of reading memory."""
        return self.bytes / self.seconds


@dataclass(frozen=True)
class Roofline:
    """Decode steps by cache fill, prompts by length."""

    tokens: tuple[Point, ...]
    prompts: tuple[Point, ...]


@dataclass(frozen=True)
class Roof:
    """Peak rates of the profiled board for one file.

    Attributes:
        flops_per_second: rate of the file's fastest matrix product, on `tokens` rows at once.
        tokens: tokens in a prefill chunk, or the most that were profiled.
        bytes_per_second: read bandwidth of a buffer of `working_set_bytes`.
        working_set_bytes: bytes of one decode step with the cache half full.
    """

    flops_per_second: float
    tokens: int
    bytes_per_second: float
    working_set_bytes: int

    def at(self, intensity: float) -> float:
        """Return the FLOPs per second that a computation of this intensity, in FLOPs per byte, can reach."""
        return min(self.flops_per_second, intensity * self.bytes_per_second)


@dataclass(frozen=True)
class ComparedFigure:
    """One predicted and measured number; `measured` is None where the system does not report it."""

    name: str
    unit: str
    predicted: float
    measured: float | None

    @property
    def off(self) -> float | None:
        """Relative error of the prediction; positive if it is too high."""
        return None if not self.measured else self.predicted / self.measured - 1


@dataclass(frozen=True)
class ProfileComparison:
    """Predictions of a board profile, compared with measurements.

    Attributes:
        name, date, threads: of the profile.
        here: True if the profile is of this machine and the measured number of threads.
        caveats: warnings about the predictions, a sentence each without a full stop.
        roof: peak rates; None if the profile is not of here.
        figures: medians; none for a kind of file that profiles do not cover.
    """

    name: str
    date: str
    threads: int
    here: bool
    caveats: tuple[str, ...]
    roof: Roof | None
    figures: tuple[ComparedFigure, ...]


def roofline(config: ModelConfig, bench: Bench) -> Roofline:
    """Compute the roofline points of a measured file."""
    return Roofline(
        tokens=tuple(_token(config, bench, fill) for fill in sorted(bench.token)),
        prompts=tuple(_prompt(config, bench, n) for n in sorted(bench.first_token)),
    )


def compare(profile: Target, facts: Facts, weights: Weights, bench: Bench) -> ProfileComparison:
    """Compare the predictions of a board profile with the measurements of a file."""
    doubts = caveats(profile)
    same_threads = profile.threads == bench.spec.threads
    if not same_threads:
        doubts += (
            f"the profile was made with {threads_text(profile.threads)}, this page with {bench.spec.threads}",
        )
    known = facts.target == ENGINE and facts.kv_cache == "fp32"
    if not known:
        doubts += ("profiles cover engine files with a float32 cache, so nothing is predicted for this one",)
    here = is_here(profile) and same_threads
    return ProfileComparison(
        name=profile.name,
        date=profile.date,
        threads=profile.threads,
        here=here,
        caveats=doubts,
        roof=_roof(profile, facts, weights, bench) if here else None,
        figures=tuple(_figures(Predictor(profile), facts, weights, bench)) if known else (),
    )


def _token(config: ModelConfig, bench: Bench, fill: int) -> Point:
    flops = account(config, cached_tokens=fill).total.decode_flops
    return Point(fill, flops, bench.bytes_per_token(fill), bench.token[fill].p50 / 1000)


def _prompt(config: ModelConfig, bench: Bench, n: int) -> Point:
    """Return the point of a prompt of n tokens; each of its chunks reads the weights and the cache once.

    In the engine target only the last token of a chunk passes through what follows the last attention: its
    projection, the last feed-forward network and the head. Attention is counted at the most that the
    exporter's graph computes: every token over the whole prompt.
    """
    chunks = range(0, n, PREFILL_CHUNK)  # tokens in the cache before each
    counted = account(config, prompt_tokens=n)
    total = n * counted.total.prefill_flops
    if bench.file.target == ENGINE:
        d, head = config.n_embd, counted.components[-1]
        behind = 2 * d * d + 16 * d * d + head.prefill_flops
        total -= behind * (n - len(chunks))
    read = sum(bench.bytes_per_token(start) for start in chunks)
    return Point(n, total, read, bench.first_token[n].p50 / 1000)


def _roof(profile: Target, facts: Facts, weights: Weights, bench: Bench) -> Roof | None:
    """Return the peak rates; None for a profile in which work takes no time, as one written by hand."""
    costs = OpCosts(
        profile.products, profile.streaming, profile.cache_streaming, profile.attention, profile.nodes
    )
    most_tokens: dict[tuple[int, int], int] = {}
    for row in profile.products:
        most_tokens[row.bits, row.block] = max(row.tokens, most_tokens.get((row.bits, row.block), 0))
    tokens = min(PREFILL_CHUNK, *most_tokens.values())
    fastest = 0.0
    for name, (outputs, inputs) in matrices(facts.config).items():
        if name.startswith("blocks."):  # the others are looked up, or make one row of logits
            us = costs.product_us(weights.bits[name], outputs, inputs, tokens)
            fastest = max(fastest, 2e6 * outputs * inputs * tokens / us if us else inf)
    working_set = bench.bytes_per_token(bench.file.context // 2)
    points = sorted((log(row.working_set_mb), row.gb_s) for row in profile.read_bandwidth)
    sizes, rates = zip(*points, strict=True)
    gb_s = float(np.interp(log(working_set / 1e6), sizes, rates))
    return Roof(fastest, tokens, 1e9 * gb_s, working_set) if fastest < inf else None


def _figures(predictor: Predictor, facts: Facts, weights: Weights, bench: Bench) -> Iterator[ComparedFigure]:
    work = ModelWork.of(facts.config, weights.bits)
    for n, times in sorted(bench.first_token.items()):
        predicted = predictor.calls.first_token_us(work, n) / 1e3
        yield ComparedFigure(f"first token, prompt of {n}", "ms", predicted, times.p50)
    for n, times in sorted(bench.token.items()):
        predicted = predictor.calls.token_us(work, n) / 1e3
        yield ComparedFigure(f"decode step, {n} in cache", "ms", predicted, times.p50)
    if facts.precision == AUTO:  # the load of mixed precisions is not profiled
        return
    whole = predictor.predict(facts.config, facts.precision)
    peak = bench.largest.peak_rss_bytes
    yield ComparedFigure("load", "ms", whole.load_ms, bench.of_processes("load_ms").p50)
    yield ComparedFigure("peak memory (RSS)", "MB", whole.peak_rss_mb, None if peak is None else peak / 1e6)
