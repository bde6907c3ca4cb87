"""edgegpt.runtime.sampling: parameters, filters against their definitions, and the draw."""

import math
from random import Random
from typing import Any, cast

import numpy as np
import pytest
import torch
from conftest import Refused
from hypothesis import assume, given, strategies as st
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from edgegpt.errors import SamplingError
from edgegpt.runtime.sampling import (
    Logits,
    SamplingParams,
    Weights,
    draw,
    filtered_weights,
    keep_top_p,
    likeliest,
    new_rng,
    penalise_repetition,
    sample,
    scale,
)

LOGITS = st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=40).map(
    lambda x: np.array(x, np.float32)
)


class Dice(Random):
    """A random generator that always rolls the same."""

    def __init__(self, roll: float) -> None:
        super().__init__()
        self.roll = roll

    def random(self) -> float:
        return self.roll


# --- params ---


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_new_tokens": 0},
        {"max_new_tokens": True},
        {"max_new_tokens": 1.5},
        {"temperature": -0.1},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"temperature": "hot"},
        {"temperature": False},
        {"temperature": 10**400},
        {"top_k": -1},
        {"top_k": 2.0},
        {"top_p": -0.01},
        {"top_p": 1.01},
        {"top_p": math.nan},
        {"min_p": 1.5},
        {"min_p": None},
        {"repetition_penalty": 0},
        {"repetition_penalty": -1.0},
        {"seed": -1},
        {"seed": "7"},
        {"deadline_ms": 0},
        {"deadline_ms": math.inf},
        {"stop": 5},
        {"stop": b"x"},
        {"stop": ("a", 5)},
        {"stop": ""},
        {"stop": ("a", "")},
        {"stop": [""]},
    ],
    ids=str,
)
def test_nonsense_is_refused_in_a_sentence_that_holds_name_and_value(
    refused: Refused, wrong: dict[str, Any]
) -> None:
    ((name, value),) = wrong.items()
    with refused(SamplingError, name, repr(value[-1] if isinstance(value, tuple | list) else value)):
        SamplingParams(**wrong)


def test_stop_takes_one_string_or_several() -> None:
    one: Any = "END"
    several: Any = ["a", "b"]
    assert SamplingParams(stop=one).stop == ("END",)
    assert SamplingParams(stop=several).stop == ("a", "b")


def test_params_are_frozen() -> None:
    with pytest.raises(AttributeError):
        SamplingParams().seed = 1  # type: ignore[misc]


# --- filters against slow references ---


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


@given(
    LOGITS,
    st.floats(0.1, 5),
    st.integers(0, 60),
    st.one_of(st.just(0.0), st.just(1.0), st.floats(0, 1)),
    st.one_of(st.just(0.0), st.just(1.0), st.floats(0, 1)),
)
def test_filters_equal_their_definitions(
    logits: Logits, temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    np.testing.assert_allclose(
        filtered_weights(logits, params), slow_weights(logits, params), rtol=1e-9, atol=0
    )


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


def test_top_k_of_zero_or_beyond_the_vocabulary_keeps_all() -> None:
    logits = np.array([3, 1, 2], np.float32)
    for k in (0, 3, 4, 10**9):
        assert (filtered_weights(logits, SamplingParams(top_k=k)) > 0).all()


def test_top_k_keeps_what_ties_with_the_last() -> None:
    weights = filtered_weights(np.array([2, 1, 1, 0], np.float32), SamplingParams(top_k=2))
    assert (weights > 0).tolist() == [True, True, True, False]


def test_top_p_of_zero_keeps_only_the_most_likely_and_of_two_the_lower_id() -> None:
    weights = filtered_weights(np.array([0, 5, 5, 1], np.float32), SamplingParams(top_p=0.0))
    assert (weights > 0).tolist() == [False, True, False, False]


def test_top_p_of_one_is_off() -> None:
    assert (filtered_weights(np.arange(-30, 30, dtype=np.float32), SamplingParams(top_p=1.0)) > 0).all()


def test_a_flat_nucleus_larger_than_the_first_look_is_found_whole() -> None:
    kept = keep_top_p(np.ones(50_000), 0.9)
    assert np.count_nonzero(kept) == 45_000
    assert kept[:45_000].all()  # of equals, the lower ids


def test_min_p_of_one_keeps_only_what_equals_the_most_likely() -> None:
    weights = filtered_weights(np.array([1, 4, 4, 3], np.float32), SamplingParams(min_p=1.0))
    assert (weights > 0).tolist() == [False, True, True, False]


def test_logits_of_any_finite_size_and_masked_ones_stay_stable() -> None:
    logits = np.array([3e38, -3e38, -np.inf, 0], np.float32)
    for temperature in (1e-300, 1e-3, 1.0, 1000.0):
        weights = filtered_weights(logits, SamplingParams(temperature=temperature, top_p=0.9))
        assert weights.tolist() == [1, 0, 0, 0]
    assert scale(logits, 1.0)[2] == -np.inf


def test_a_repeated_token_is_penalised_once_and_away_from_its_sign() -> None:
    logits = np.array([2, -2, 2, -2], np.float32)
    seen = np.array([True, True, False, False])
    assert penalise_repetition(logits, seen, 2.0).tolist() == [1, -4, 2, -2]
    assert logits.tolist() == [2, -2, 2, -2]


# --- the draw ---


@given(LOGITS)
def test_greedy_takes_the_largest_logit_and_of_equals_the_lowest_id(logits: Logits) -> None:
    assert sample(logits, SamplingParams(temperature=0), Random(0)) == logits.tolist().index(max(logits))


@given(LOGITS, st.integers(0, 2**32))
def test_a_temperature_near_zero_is_greedy(logits: Logits, seed: int) -> None:
    drawn = sample(logits, SamplingParams(temperature=1e-30), Random(seed))
    assert logits[drawn] == logits.max()


@given(
    st.lists(st.one_of(st.just(0.0), st.floats(1e-12, 1)), min_size=1, max_size=30).filter(any),
    st.floats(0, 1, exclude_max=True),
)
def test_a_weight_of_zero_is_never_drawn(weights: list[float], roll: float) -> None:
    row = np.array(weights)
    for extreme in (roll, 0.0, math.nextafter(1.0, 0.0)):
        assert row[draw(row, Dice(extreme))] > 0


def test_draws_follow_the_probabilities() -> None:
    logits = np.array([0, 1, 2, 3, -1, 0.5, 1.5, 2.5, -0.5, 0], np.float32)
    params = SamplingParams(temperature=1.3, seed=11)
    rng, n = new_rng(params), 20_000
    counts = np.bincount([sample(logits, params, rng) for _ in range(n)], minlength=logits.size)
    expected = np.exp(logits / 1.3) / np.exp(logits / 1.3).sum() * n
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 27.88  # 9 degrees of freedom, p = 0.001


def test_the_same_seed_draws_the_same_and_no_seed_draws_anew() -> None:
    logits = np.zeros(1000, np.float32)

    def draws(seed: int | None) -> list[int]:
        params = SamplingParams(seed=seed)
        rng = new_rng(params)
        return [sample(logits, params, rng) for _ in range(8)]

    assert draws(5) == draws(5)
    assert draws(5) != draws(6)
    assert draws(None) != draws(None)


# --- a large vocabulary ---


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
    whole = draw(filtered_weights(logits, params), new_rng(params))
    # float32 sums may move a draw at the very edge between two tokens to the neighbour that may be drawn.
    assert sample(logits, params, new_rng(params)) in neighbours(filtered_weights(logits, params), whole)


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
    logits = np.zeros(5000, np.float32)
    drawn = {
        sample(logits, params, new_rng(params))
        for params in (SamplingParams(top_p=0.9, seed=seed) for seed in range(40))
    }
    assert len(drawn) > 30
    assert max(drawn) > 256


@pytest.mark.parametrize("roll", [0.0, 0.5, math.nextafter(1.0, 0.0)])
def test_a_token_of_no_weight_is_never_drawn_from_a_large_vocabulary(roll: float) -> None:
    weights = np.zeros(5000, np.float32)
    weights[[130, 131, 4000]] = [1e-30, 1.0, 1e-30]
    assert weights[draw(weights, Dice(roll))] > 0
