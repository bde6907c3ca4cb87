"""How far a file is from what the machine's memory allows (Williams, Waterman and Patterson 2009).

Work are the multiplications and additions of matrix products, whatever the precision of the weights
(edgegpt.accounting); traffic are the bytes that have to be read at least once. The roof of arithmetic
itself is a profile's (edgegpt.report.predicted); without one, the fastest prompt is a lower bound of it.
"""

from dataclasses import dataclass

from edgegpt.accounting import account
from edgegpt.config.model import ModelConfig
from edgegpt.contract import ENGINE
from edgegpt.measure.bench import Bench
from edgegpt.runtime.tuning import PREFILL_CHUNK


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
