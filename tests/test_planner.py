"""edgegpt.planner: ranking and search, on a board profile made by hand. No time is judged."""

import math
import os
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from conftest import Refused
from helpers.planning import SMALL, VALUES, budget, planned
from helpers.sample_target import TARGET
from hypothesis import given, settings, strategies as st

from edgegpt.accounting import kv_cache_bytes, parameter_count
from edgegpt.config.model import ModelConfig
from edgegpt.errors import BudgetError, ConfigError, MeasureError
from edgegpt.planner.limits import limits_of
from edgegpt.planner.parallel import processes, ranges
from edgegpt.planner.planner import plan_models
from edgegpt.planner.scaling import PRECISION_NATS, block_parameters, expected_loss, right_vocabularies
from edgegpt.planner.search import Job, RankedCandidate, merge, merge_nearest, nearest_in_range, search_range
from edgegpt.planner.space import FEWEST, MOST, Candidate, Space, space_of
from edgegpt.prediction.predict import Predictor, artifact_mb
from edgegpt.quantization import PRECISIONS, recipe, weight_bytes

FEW = replace(SMALL, contexts=(128,), widths=(64, 256))


def shape(n_layer: int, n_embd: int) -> ModelConfig:
    return ModelConfig(vocab_size=512, block_size=64, n_layer=n_layer, n_head=n_embd // 32, n_embd=n_embd)


# The rule


def test_the_law_of_kaplan_is_what_it_is_known_by() -> None:
    gpt2 = ModelConfig(vocab_size=50257, block_size=1024, n_layer=12, n_head=12, n_embd=768)
    assert block_parameters(gpt2) == pytest.approx(85e6, rel=0.01)
    assert expected_loss(gpt2, "fp32") == pytest.approx((8.8e13 / 85e6) ** 0.076, rel=0.01)


def test_more_blocks_or_a_shape_nearer_to_the_best_ratio_are_stronger() -> None:
    deep, wide = shape(16, 256), shape(1, 1024)
    assert block_parameters(deep) == pytest.approx(block_parameters(wide), rel=0.01)
    for stronger, weaker in (
        (shape(8, 256), shape(6, 256)),
        (shape(8, 288), shape(8, 256)),
        (deep, wide),
    ):
        assert expected_loss(stronger, "fp32") < expected_loss(weaker, "fp32")


def test_quantisation_costs_what_was_measured() -> None:
    model = shape(4, 128)
    for precision, nats in PRECISION_NATS.items():
        assert expected_loss(model, precision) == pytest.approx(expected_loss(model, "fp32") + nats)


def test_a_larger_model_gets_a_larger_vocabulary() -> None:
    sizes = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
    assert right_vocabularies(3_000_000_000, 3200, sizes) == (32768, 65536)
    assert right_vocabularies(800_000, 128, sizes) == (1024, 2048)
    assert right_vocabularies(800_000, 128, (32768,)) == (32768,)


# The space


@pytest.mark.parametrize(("width", "n_head"), [(256, 4), (96, 3)])
def test_a_width_gets_the_widest_heads_that_divide_it(width: int, n_head: int) -> None:
    assert {candidate.config.n_head for candidate in SMALL.candidates(2, width)} == {n_head}


def test_fewer_heads_never_cost_more() -> None:
    """Why no other number of heads is tried."""
    few, many = (ModelConfig(vocab_size=512, block_size=128, n_layer=3, n_head=n, n_embd=256) for n in (4, 8))
    for precision in PRECISIONS:
        a, b = (vars(Predictor(TARGET).predict(model, precision)) for model in (few, many))
        assert all(a[name] <= b[name] for name in a)


def test_the_usual_space_holds_what_edgegpt_is_for() -> None:
    space = space_of(context=256, prompt_tokens=32)
    for corner in ((1, 64), (1, 192), (32, 1024), (12, 768)):
        for candidate in space.candidates(*corner):
            assert FEWEST <= parameter_count(candidate.config) <= MOST
    assert not space.candidates(1, 64)
    assert not space.candidates(32, 1024)


@pytest.mark.parametrize("changes", [{"layers": ()}, {"parameters": (1, 2)}, {"head_dims": (7,)}])
def test_a_space_without_a_model_is_refused(refused: Refused, changes: dict[str, Any]) -> None:
    with refused(ConfigError, *changes, *changes.values()):
        plan_models(budget(**VALUES), replace(SMALL, **changes))


# The search


def by_hand() -> list[RankedCandidate]:
    """Predict every model of SMALL, one after another, and keep those within VALUES and a limit of memory."""
    found, predictor = [], Predictor(TARGET)
    for n_layer, n_embd, context in product(SMALL.layers, SMALL.widths, SMALL.contexts):
        blocks = n_layer * (12 * n_embd * n_embd + 10 * n_embd)
        head_dim = 64 if n_embd % 64 == 0 else 32
        sizes = right_vocabularies(blocks, n_embd, SMALL.vocabularies)
        for vocab_size, precision in product(sizes, PRECISIONS):
            config = ModelConfig(
                vocab_size=vocab_size,
                block_size=context,
                n_layer=n_layer,
                n_head=n_embd // head_dim,
                n_embd=n_embd,
                tie_embeddings=True,
            )
            stored = weight_bytes(config, recipe(config, precision))
            p = predictor.predict(config, precision, prompt_tokens=32)
            figures = {
                "parameters": parameter_count(config),
                "artifact_mb": artifact_mb(config, stored),
                "kv_cache_mb": kv_cache_bytes(config, context) / 1e6,
                "peak_rss_mb": p.peak_rss_mb,
                "load_ms": p.load_ms,
                **dict.fromkeys(("ttft_ms.p50", "ttft_ms.p99"), p.ttft_ms),
                **dict.fromkeys(("token_ms.p50", "token_ms.p99", "token_ms.max"), p.token_ms),
            }
            allowed = {"parameters": 3e6, "artifact_mb": 4, "token_ms.p50": 2, "peak_rss_mb": 90}
            if all(figures[name] <= limit for name, limit in allowed.items()):
                candidate = Candidate(config, precision, parameter_count(config), stored)
                found.append(RankedCandidate(candidate, expected_loss(config, precision), figures))
    return found


def test_best_and_front_are_those_of_a_search_without_any_shortcut() -> None:
    found, every = planned(**VALUES, peak_rss_mb=90).found, by_hand()
    assert found.kept == len(every) > 50

    def order(rated: RankedCandidate) -> tuple[Any, ...]:
        config, precision = rated.candidate.config, rated.candidate.precision
        shape = (config.n_layer, config.n_embd, config.n_head, config.vocab_size, precision)
        return (rated.loss, -config.block_size, rated.figures["token_ms.p50"], *shape)

    best: dict[tuple[int, int, str], RankedCandidate] = {}
    for rated in sorted(every, key=order):
        config = rated.candidate.config
        best.setdefault((config.n_layer, config.n_embd, rated.candidate.precision), rated)
    assert list(found.best) == list(best.values())[:10]

    points = {(rated.loss, rated.cost) for rated in every}
    front = [(x, y) for x, y in points if not any(a <= x and b <= y for a, b in points - {(x, y)})]
    assert [(rated.loss, rated.cost) for rated in found.front] == sorted(front)
    assert all(rated in every for rated in found.front)


LIMIT = st.floats(0.3, 8.0)


@settings(max_examples=25)
@given(LIMIT, LIMIT, st.floats(0.1, 5.0), st.floats(1.0, 3.0))
def test_a_larger_budget_never_gives_a_weaker_best_model(
    artifact: float, parameters: float, token: float, more: float
) -> None:
    def best(factor: float) -> float:
        limits = {
            "artifact_mb": factor * artifact,
            "parameters": int(factor * parameters * 1e6),
            "token_ms": {"p50": factor * token},
        }
        try:
            return plan_models(budget(**limits), FEW, target=TARGET).found.best[0].loss
        except BudgetError:
            return math.inf

    assert best(more) <= best(1.0)


def job(space: Space, **limits: Any) -> Job:
    return Job(space, limits_of(budget(**(limits or VALUES)), TARGET), TARGET, keep=10)


def test_the_result_does_not_depend_on_how_the_search_was_split() -> None:
    todo = job(SMALL)
    parts = [search_range(todo, i, i + 1) for i in range(len(SMALL.shapes()))]
    assert merge(todo, parts) == merge(todo, reversed(parts)) == planned(**VALUES).found


@pytest.mark.parametrize("limits", [{"artifact_mb": 0.1}, {"artifact_mb": 0.1, "token_ms": {"p50": 0.001}}])
def test_the_nearest_do_not_depend_on_how_the_search_was_split(limits: dict[str, Any]) -> None:
    todo, n = job(SMALL, **limits), len(SMALL.shapes())
    parts = [nearest_in_range(todo, i, i + 1) for i in range(n)]
    whole = nearest_in_range(todo, 0, n)
    assert merge_nearest(todo, parts) == merge_nearest(todo, reversed(parts)) == whole


MANY = replace(SMALL, layers=tuple(range(1, 17)))


def test_two_processes_find_what_one_finds() -> None:
    assert len(ranges(job(MANY))) > 1
    one, two = (plan_models(budget(**VALUES), MANY, target=TARGET, workers=n) for n in (1, 2))
    assert two == one


def process_id(*_: Any) -> int:
    return os.getpid()


def test_two_passes_of_a_search_share_their_processes() -> None:
    with processes(job(MANY), 2) as spread:
        first, second = (set(spread(process_id)) for _ in range(2))
    assert os.getpid() not in first | second
    assert len(first | second) <= 2


def end_at_once(*_: Any) -> None:
    os._exit(1)


def test_a_process_that_is_ended_from_outside_is_an_error(refused: Refused) -> None:
    with refused(MeasureError, 2, "--workers 1"), processes(job(MANY), workers=2) as spread:
        list(spread(end_at_once))


@pytest.mark.parametrize("workers", [0, -1, 5000])
def test_a_number_of_workers_out_of_range_is_refused(refused: Refused, workers: int) -> None:
    with refused(ConfigError, "workers", workers):
        plan_models(budget(**VALUES), SMALL, workers=workers)


@pytest.mark.parametrize(
    ("name", "value"), [("context", 32), ("context", 10**6), ("vocab_size", 5), ("precision", "int2")]
)
def test_a_choice_that_no_model_has_is_refused(refused: Refused, name: str, value: object) -> None:
    with refused(ConfigError, name, value):
        space_of(**{"context": 256, "prompt_tokens": 32, name: value})  # type: ignore[arg-type]
