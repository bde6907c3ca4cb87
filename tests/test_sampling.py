"""edgegpt.runtime.sampling: parameters, filters against their definitions, and the draw."""

import math
from random import Random
from typing import Any, cast

import numpy as np
import pytest
import torch
from conftest import Refused
from hypothesis import assume, example, given, strategies as st
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from edgegpt.errors import SamplingError
from edgegpt.runtime import SamplingParams, new_rng, sample
from edgegpt.runtime.sampling import (
    Logits,
    Weights,
    draw,
    filtered_weights,
    keep_top_p,
    likeliest,
    penalise_repetition,
    scale,
)

LOGITS = st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=40)
SHARE = st.one_of(st.just(0.0), st.just(1.0), st.floats(0, 1))


def row(logits: list[float]) -> Logits:
    return np.array(logits, np.float32)


class Dice(Random):
    """A random generator that always rolls the same."""

    def __init__(self, roll: float) -> None:
        super().__init__()
        self.roll = roll

    def random(self) -> float:
        return self.roll


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("max_new_tokens", [0, True, 1.5]),
        ("temperature", [-0.1, math.nan, math.inf, "hot", False, 10**400]),
        ("top_k", [-1, 2.0]),
        ("top_p", [-0.01, 1.01, math.nan]),
        ("min_p", [1.5, None]),
        ("repetition_penalty", [0, -1.0]),
        ("seed", [-1, "7"]),
        ("deadline_ms", [0, math.inf]),
        ("stop", [5, b"x", ("a", 5), "", ("a", ""), [""]]),
    ],
)
def test_a_value_outside_its_range_is_refused(refused: Refused, name: str, values: list[Any]) -> None:
    for value in values:
        with refused(SamplingError, name, repr(value[-1] if isinstance(value, tuple | list) else value)):
            SamplingParams(**{name: value})


def test_stop_takes_one_string_or_several_and_params_are_frozen() -> None:
    several: Any = ["a", "b"]
    assert SamplingParams(stop=several).stop == ("a", "b")
    one: Any = "END"
    params = SamplingParams(stop=one)
    assert params.stop == ("END",)
    with pytest.raises(AttributeError):
        params.seed = 1  # type: ignore[misc]


def slow_weights(logits: Logits, params: SamplingParams) -> list[float]:
    """Probabilities by the definitions, one token at a time."""
    scores = [float(x) / params.temperature for x in logits]
    top = max(scores)
    if params.top_k and params.top_k < len(scores):
        kth = sorted(scores, reverse=True)[params.top_k - 1]
        scores = [x if x >= kth else -math.inf for x in scores]
    weights = [math.exp(x - top) for x in scores]
    if params.top_p < 1:
        total, kept, before = math.fsum(weights), set[int](), list[float]()
        for i in sorted(range(len(weights)), key=lambda i: (-weights[i], i)):
            share = math.fsum(before) / total
            # Rounding decides such a share, so it is left out.
            assume(abs(share - params.top_p) > 1e-9 or not before)
            if before and share >= params.top_p:
                break
            kept.add(i)
            before.append(weights[i])
        weights = [w if i in kept else 0.0 for i, w in enumerate(weights)]
    assume(all(abs(w - params.min_p) > 1e-9 for w in weights if params.min_p < 1))
    return [w if w >= params.min_p else 0.0 for w in weights]


@given(LOGITS, st.floats(0.1, 5), st.integers(0, 60), SHARE, SHARE)
@example([2, 1, 1, 0], 1, 2, 1, 0)  # what ties with the last of top-k stays
@example([3, 1, 2], 1, 10**9, 1, 0)
@example([0, 5, 5, 1], 1, 0, 0, 0)  # of equals the lower id
@example([1, 4, 4, 3], 1, 0, 1, 1)
def test_filters_equal_their_definitions(
    logits: list[float], temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    weights = filtered_weights(row(logits), params)
    np.testing.assert_allclose(weights, slow_weights(row(logits), params), rtol=1e-9, atol=0)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("size", [50, 5000])
def test_filters_and_their_order_equal_transformers(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 4, size).astype(np.float32)
    seen = rng.integers(0, size, 20)
    params = SamplingParams(temperature=0.7, top_k=40, top_p=0.83, min_p=0.03, repetition_penalty=1.3)
    theirs = LogitsProcessorList(
        [
            RepetitionPenaltyLogitsProcessor(params.repetition_penalty),
            TemperatureLogitsWarper(params.temperature),
            TopKLogitsWarper(params.top_k),
            TopPLogitsWarper(params.top_p),
            MinPLogitsWarper(params.min_p),
        ]
    )(cast("torch.LongTensor", torch.tensor(seen)[None]), torch.tensor(logits)[None])
    mask = np.zeros(size, bool)
    mask[seen] = True
    ours = filtered_weights(penalise_repetition(logits, mask, params.repetition_penalty), params)
    np.testing.assert_allclose(ours / ours.sum(), theirs[0].softmax(-1).numpy(), rtol=1e-4, atol=1e-9)
    assert ((ours > 0) == torch.isfinite(theirs[0]).numpy()).all()


def test_a_flat_nucleus_larger_than_the_first_look_is_found_whole() -> None:
    kept = keep_top_p(np.ones(50_000), 0.9)
    assert np.count_nonzero(kept) == 45_000
    assert kept[:45_000].all()  # of equals, the lower ids


def test_logits_of_any_finite_size_and_masked_ones_stay_stable() -> None:
    logits = row([3e38, -3e38, -np.inf, 0])
    for temperature in (1e-300, 1e-3, 1.0, 1000.0):
        weights = filtered_weights(logits, SamplingParams(temperature=temperature, top_p=0.9))
        assert weights.tolist() == [1, 0, 0, 0]
    assert scale(logits, 1.0)[2] == -np.inf


def test_a_repeated_token_is_penalised_once_and_away_from_its_sign() -> None:
    logits = row([2, -2, 2, -2])
    assert penalise_repetition(logits, np.array([True, True, False, False]), 2.0).tolist() == [1, -4, 2, -2]
    assert logits.tolist() == [2, -2, 2, -2]


@given(LOGITS, st.integers(0, 2**32))
@example([1e-45, 0], 0)  # the nearest that two logits can be
def test_greedy_and_a_temperature_near_zero_take_the_largest(logits: list[float], seed: int) -> None:
    assert sample(row(logits), SamplingParams(temperature=0), Random(seed)) == row(logits).argmax()
    assert (
        row(logits)[sample(row(logits), SamplingParams(temperature=1e-60), Random(seed))] == row(logits).max()
    )


@given(
    st.lists(st.one_of(st.just(0.0), st.floats(1e-12, 1)), min_size=1, max_size=30).filter(any),
    st.floats(0, 1, exclude_max=True),
)
def test_a_weight_of_zero_is_never_drawn(weights: list[float], roll: float) -> None:
    large = np.zeros(5000, np.float32)
    large[[130, 131, 4000]] = [1e-30, 1.0, 1e-30]
    for extreme in (roll, 0.0, math.nextafter(1.0, 0.0)):
        assert weights[draw(np.array(weights), Dice(extreme))] > 0
        assert large[draw(large, Dice(extreme))] > 0


def test_draws_follow_the_probabilities() -> None:
    logits = row([0, 1, 2, 3, -1, 0.5, 1.5, 2.5, -0.5, 0])
    params = SamplingParams(temperature=1.3, seed=11)
    rng, n = new_rng(params), 20_000
    counts = np.bincount([sample(logits, params, rng) for _ in range(n)], minlength=logits.size)
    expected = np.exp(logits / 1.3) / np.exp(logits / 1.3).sum() * n
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 27.88  # 9 degrees of freedom, p = 0.001


def test_the_same_seed_draws_the_same_and_no_seed_draws_anew() -> None:
    def draws(seed: int | None) -> list[int]:
        params = SamplingParams(seed=seed)
        rng = new_rng(params)
        return [sample(row([0] * 1000), params, rng) for _ in range(8)]

    assert draws(5) == draws(5)
    assert draws(5) != draws(6)
    assert draws(None) != draws(None)


@given(
    st.integers(0, 10_000),
    st.sampled_from([2049, 5000, 5003]),
    st.sampled_from([0.3, 1.0, 4.0]),
    st.sampled_from([0, 1, 40, 200, 400, 6000]),
    st.sampled_from([0.0, 0.5, 0.95, 1.0]),
    st.sampled_from([0.0, 0.01, 0.3, 1.0]),
    st.sampled_from([1e-200, 0.2, 1.0, 900.0]),
)
def test_the_short_way_through_a_large_vocabulary_draws_the_same_token(
    seed: int, size: int, spread: float, top_k: int, top_p: float, min_p: float, temperature: float
) -> None:
    logits = np.random.default_rng(seed).normal(0, spread, size).astype(np.float32).round(2)  # with ties
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed)
    weights = filtered_weights(logits, params)
    # float32 sums may move a draw at the very edge between two tokens to the neighbour that may be drawn.
    whole = draw(weights, new_rng(params))
    assert sample(logits, params, new_rng(params)) in neighbours(weights, whole)


def neighbours(weights: Weights, token_id: int) -> list[int]:
    kept = np.flatnonzero(weights)
    at = int(kept.searchsorted(token_id))
    return list(map(int, kept[max(at - 1, 0) : at + 2]))


@given(st.integers(0, 10_000), st.sampled_from([17, 500, 2049]), st.integers(1, 2500))
def test_the_likeliest_hold_the_k_largest_and_their_ties(seed: int, size: int, k: int) -> None:
    logits = np.random.default_rng(seed).normal(0, 1, size).astype(np.float32).round(1)
    ids = likeliest(logits, k)
    kth = np.sort(logits)[::-1][min(k, size) - 1]
    assert set(np.flatnonzero(logits >= kth)) <= set(ids)
    assert (np.diff(ids) > 0).all()


def test_a_flat_large_vocabulary_falls_back_to_the_full_row() -> None:
    every = [SamplingParams(top_p=0.9, seed=seed) for seed in range(40)]
    drawn = {sample(row([0] * 5000), params, new_rng(params)) for params in every}
    assert len(drawn) > 30
    assert max(drawn) > 256
