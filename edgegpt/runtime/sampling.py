"""Sampling: from logits to the next token, in numpy.

The steps and their order are those of transformers' generate: repetition penalty, temperature,
top-k, top-p, min-p, draw. Shapes: V is the number of tokens that may be drawn. Logits are float32;
probabilities are kept as float64 weights relative to the most likely token, whose weight is 1.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from random import Random
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from edgegpt.errors import SamplingError, whole_number

Logits = NDArray[np.float32]
Weights = NDArray[np.float64]

# Number of the likeliest tokens that top-p sorts first; most nuclei are smaller.
_NUCLEUS_FIRST: Final = 256
_COLDEST: Final = 1e-200
_COLDEST_FLOAT32: Final = 1e-30
# From here on it is quicker to find the likely tokens first (benchmarks/sampling.py).
_LARGE_VOCABULARY: Final = 2048
_GROUP: Final = 16
_SUMMED: Final = 64


@dataclass(frozen=True)
class SamplingParams:
    """Parameters of one request. A value outside its range raises SamplingError.

    Attributes:
        max_new_tokens: at most this many tokens are generated, from 1 up.
        temperature: divides the logits, up to 1000; 0 is greedy.
        top_k: keep only this many most likely tokens; 0 is off.
        top_p: keep only the most likely tokens that together have this probability; 1 is off, 0 keeps one.
        min_p: drop tokens below this fraction of the top probability; 0 is off.
        repetition_penalty: above 1 makes tokens of the prompt and the answer less likely, each
            distinct token once; 1 is off, 0.01 to 100.
        seed: seed of the request's own random generator; None is a random seed.
        stop: strings that end the answer and are not part of it; one string or several.
        deadline_ms: milliseconds from the request's arrival to its end at most; None is off.
    """

    max_new_tokens: int = 128
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    deadline_ms: float | None = None

    def __post_init__(self) -> None:
        integers = {"max_new_tokens": 1, "top_k": 0} | ({} if self.seed is None else {"seed": 0})
        for name, least in integers.items():
            object.__setattr__(
                self, name, whole_number(name, getattr(self, name), SamplingError, least=least)
            )
        _number("temperature", self.temperature, "from 0 (greedy) to 1000", lambda x: 0 <= x <= 1000)
        _number("top_p", self.top_p, "between 0 and 1", lambda x: 0 <= x <= 1)
        _number("min_p", self.min_p, "between 0 and 1", lambda x: 0 <= x <= 1)
        penalty = self.repetition_penalty
        _number("repetition_penalty", penalty, "between 0.01 and 100", lambda x: 0.01 <= x <= 100)
        if self.deadline_ms is not None:
            _number("deadline_ms", self.deadline_ms, "above 0", lambda x: x > 0)
        object.__setattr__(self, "stop", _stop_strings(self.stop))


def sample(logits: Logits, params: SamplingParams, rng: Random) -> int:
    """Draw the next token id from logits (V,), which hold no NaN and at least one finite value.

    The repetition penalty, which depends on earlier tokens, is `penalise_repetition`.
    """
    if params.temperature == 0:
        return int(logits.argmax())
    if logits.size <= _LARGE_VOCABULARY:
        return draw(filtered_weights(logits, params), rng)
    if not params.top_k and params.top_p == 1 and not params.min_p:
        return draw(_row(logits, params.temperature), rng)
    candidates = _candidates(logits, params)
    if candidates is None:
        return draw(filtered_weights(logits, params), rng)
    ids, weights = candidates
    return int(ids[draw(weights, rng)])


def filtered_weights(logits: Logits, params: SamplingParams) -> Weights:
    """Return relative probabilities (V,) after temperature, top-k, top-p and min-p; temperature is not 0."""
    scores = scale(logits, params.temperature)
    if params.top_k:
        scores = keep_top_k(scores, params.top_k)
    weights = np.exp(scores)
    if params.top_p < 1:
        weights = keep_top_p(weights, params.top_p)
    if params.min_p:
        weights = keep_min_p(weights, params.min_p)
    return weights


def _candidates(logits: Logits, params: SamplingParams) -> tuple[NDArray[np.intp], Weights] | None:
    """Return the ids that may be drawn, ascending, and their weights, without filtering all of V.

    None if the likeliest tokens do not reach top-p, so that all are needed.
    """
    if params.top_k:
        ids = likeliest(logits, params.top_k)
        return ids, filtered_weights(logits[ids], params)
    if params.top_p < 1:
        ids = likeliest(logits, _NUCLEUS_FIRST)
        weights = np.exp(scale(logits[ids], params.temperature))
        total = float(_row(logits, params.temperature).sum(dtype=np.float64))
        if weights.sum() < params.top_p * total:
            return None
        weights = keep_top_p(weights, params.top_p, total)
        return ids, keep_min_p(weights, params.min_p) if params.min_p else weights
    # A slightly lower limit, for rounding; filtered_weights applies the exact one.
    least = logits.max() + params.temperature * (math.log(params.min_p) - 1e-3) - 1e-3
    ids = np.flatnonzero(logits >= least)
    return ids, filtered_weights(logits[ids], params)


def _row(logits: Logits, temperature: float) -> NDArray[np.float32]:
    """Return relative probabilities (V,) in float32, which takes a tenth of float64's time."""
    with np.errstate(over="ignore"):  # -inf is right for very unlikely tokens at a low temperature
        weights: NDArray[np.float32] = np.exp(
            (logits - logits.max()) / np.float32(max(temperature, _COLDEST_FLOAT32))
        )
    return weights


def likeliest(logits: Logits, k: int) -> NDArray[np.intp]:
    """Return ids, ascending: the k largest logits (V,), all that tie with the last, and a few more.

    The k-th largest of the maxima of groups is at most the k-th largest of all, and groups of 16 make
    the selection 16 times shorter than one among V.
    """
    columns = logits.size // _GROUP
    if k >= columns:
        return np.arange(logits.size)
    maxima = logits[: columns * _GROUP].reshape(_GROUP, columns).max(axis=0)
    return np.flatnonzero(logits >= np.partition(maxima, columns - k)[columns - k])


def new_rng(params: SamplingParams) -> Random:
    """Return the random generator of one request.

    Python's own: importing numpy.random takes 7 MB, OpenSSL included, for one number a token.
    """
    return Random(params.seed)


def penalise_repetition(logits: Logits, seen: NDArray[np.bool_], penalty: float) -> Logits:
    """Make every token of `seen` (V,) less likely: a positive logit is divided, another multiplied.

    Keskar et al., "CTRL" (2019), section 4.1, with the multiplication for negative logits that its
    released code and transformers use. Returns a new array (V,).
    """
    penalised = np.where(logits > 0, logits / np.float32(penalty), logits * np.float32(penalty))
    return np.where(seen, penalised, logits)


def scale(logits: Logits, temperature: float) -> Weights:
    """Return logits (V,) over temperature, shifted so that the largest is 0."""
    scores = logits.astype(np.float64)
    scores -= scores.max()
    # _COLDEST is below float32 resolution, and large enough that the quotient does not overflow.
    scores /= max(temperature, _COLDEST)
    return scores


def keep_top_k(scores: Weights, k: int) -> Weights:
    """Set scores (V,) below the k-th largest to -inf; ties with the k-th stay, k > V keeps all."""
    if k >= scores.size:
        return scores
    kth = np.partition(scores, scores.size - k)[scores.size - k]
    return np.where(scores >= kth, scores, -np.inf)


def keep_top_p(weights: Weights, p: float, total: float | None = None) -> Weights:
    """Zero weights (V,) outside the nucleus, the fewest likeliest tokens that together reach p of `total`.

    `total` is their sum unless given; for a part of a row it is the row's.

    Holtzman et al., "The Curious Case of Neural Text Degeneration" (2020). Of equal weights the
    lower token id goes first; one token always stays.
    """
    ids = np.flatnonzero(weights > 0)  # after top-k few are left
    values = weights[ids]
    goal = p * (values.sum() if total is None else total)
    count = _NUCLEUS_FIRST
    while True:
        # The count likeliest and what ties with the last of them, by weight and then by id.
        likely = np.arange(values.size)
        if count < values.size:
            likely = np.flatnonzero(values >= np.partition(values, -count)[-count])
        likely = likely[np.argsort(-values[likely], kind="stable")]
        sums = values[likely].cumsum()
        if sums[-1] >= goal or count >= values.size:
            break
        count *= 8
    nucleus = ids[likely[: int(sums.searchsorted(goal)) + 1]]
    kept = np.zeros_like(weights)
    kept[nucleus] = weights[nucleus]
    return kept


def keep_min_p(weights: Weights, min_p: float) -> Weights:
    """Zero weights (V,) below min_p times the largest (Nguyen et al., "Min-p Sampling", 2024)."""
    return np.where(weights >= min_p * weights.max(), weights, 0.0)


def draw(weights: Weights | NDArray[np.float32], rng: Random) -> int:
    """Draw an index with probability in proportion to its weight (V,), by inverting the sum.

    A long row is summed in groups first, and then within the one that is hit.
    """
    roll = rng.random()
    if weights.size <= _LARGE_VOCABULARY:
        return _invert(weights.cumsum(), roll)[0]
    starts = np.arange(0, weights.size, _SUMMED)
    group, roll = _invert(np.add.reduceat(weights, starts, dtype=np.float64).cumsum(), roll)
    within = weights[starts[group] : starts[group] + _SUMMED]
    return int(starts[group]) + _invert(within.cumsum(dtype=np.float64), roll)[0]


def _invert(sums: NDArray[np.float64], roll: float) -> tuple[int, float]:
    """Return the first index whose cumulative sum exceeds `roll` of the total, and the fraction into it."""
    total = float(sums[-1])
    mark = roll * total
    if mark >= total:  # a roll is below 1, but the product may round up
        mark = math.nextafter(total, 0.0)
    index = int(sums.searchsorted(mark, side="right"))
    before = float(sums[index - 1]) if index else 0.0
    return index, min((mark - before) / (float(sums[index]) - before), math.nextafter(1.0, 0.0))


def _number(name: str, value: Any, wanted: str, accept: Any) -> None:
    number = isinstance(value, Real) and not isinstance(value, bool)  # of Python or numpy
    # Compared with infinity and not by isfinite, which an int of 400 digits overflows.
    if not number or not -math.inf < value < math.inf or not accept(value):
        raise SamplingError(f"{name} must be a number {wanted}, got {value!r}")


def _stop_strings(stop: Any) -> tuple[str, ...]:
    if isinstance(stop, str):
        stop = (stop,)
    if not isinstance(stop, Iterable) or isinstance(stop, bytes):
        raise SamplingError(f"stop must be a string or several, got {stop!r}")
    strings = tuple(stop)
    for text in strings:
        if not isinstance(text, str) or not text:
            raise SamplingError(f"stop must hold strings that are not empty, got {text!r}")
    return strings
