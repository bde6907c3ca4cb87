"""edgegpt.prediction: arithmetic on a board profile made by hand. No times are measured."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROVER
from helpers.sample_target import TARGET, profile_file
from hypothesis import given, strategies as st

from edgegpt import contract
from edgegpt.accounting import kv_cache_bytes
from edgegpt.cli.main import main
from edgegpt.config.model import ModelConfig
from edgegpt.prediction.cost_model import Curve, ModelWork, neighbours
from edgegpt.prediction.predict import Predictor, artifact_mb
from edgegpt.quantization import PRECISIONS, recipe, weight_bytes
from edgegpt_export import export_checkpoint
from edgegpt_export.synthetic import write_random_file

CONFIGS = Path(__file__).parents[1] / "configs"
PREDICTOR = Predictor(TARGET)
OPS = PREDICTOR.ops
Capture = pytest.CaptureFixture[str]


def config(**changes: int | bool) -> ModelConfig:
    usual: dict[str, Any] = {"vocab_size": 512, "block_size": 256, "n_layer": 2, "n_head": 2, "n_embd": 64}
    return ModelConfig(**{**usual, **changes})


def work(model: ModelConfig, precision: str) -> ModelWork:
    return ModelWork.of(model, recipe(model, precision))


# Arithmetic


def nodes_by_hand(n_layer: int, bits: int, tokens: int, cached: int) -> float:
    """Add up a call of `config(n_layer=n_layer)`; of the last layer, one row remains after the attention."""
    d, v = 64, 512

    def line(us: float, values: float) -> float:
        return us + us * values / 1e3

    def product(outputs: int, inputs: int, rows: int) -> float:
        per_million = 10.0 * bits * (1 + rows // 8)  # rows are 1 or 8, both of them in the table
        return 1 + inputs / 1e3 + 2 * outputs / 1e3 + per_million * outputs * inputs / 1e6

    def after(rows: int) -> float:
        products = product(d, d, rows) + product(4 * d, d, rows) + product(d, 4 * d, rows)
        biases = 2 * line(0.5, d * rows) if bits == 32 else 0  # quantised products add theirs themselves
        return products + 2 * line(1, d * rows) + line(1, 4 * d * rows) + biases

    pairs = tokens * (cached + tokens)
    attention = 2 + 2 * d * tokens / 1e3 + 100 * d * pairs / 1e6 + 2 * pairs / 1e3
    before = product(3 * d, d, tokens) + attention
    lookups = 2 * line(0.5 if bits == 32 else 1, d * tokens)
    around = 6 * 0.5 + lookups + line(1, d * tokens) + product(v, d, 1)
    return n_layer * before + (n_layer - 1) * after(tokens) + after(1) + around


@pytest.mark.parametrize(
    ("n_layer", "precision", "bits", "tokens", "cached"),
    [(1, "fp32", 32, 1, 100), (2, "int8", 8, 8, 20), (3, "fp32", 32, 8, 0)],
)
def test_a_call_is_the_sum_of_its_nodes(
    n_layer: int, precision: str, bits: int, tokens: int, cached: int
) -> None:
    nodes, fetch = OPS.call_us(work(config(n_layer=n_layer), precision), tokens, cached)
    assert nodes == pytest.approx(nodes_by_hand(n_layer, bits, tokens, cached))
    assert fetch == 0  # the model is smaller than the smallest working set


def test_a_large_model_pays_for_fetching_its_weights() -> None:
    model = config(n_layer=12, n_embd=512, n_head=8)  # some 150 MB, above the table's largest working set
    weights_mb = 4 * (12 * 12 * 512 * 512 + 512 * 512) / 1e6
    _, fetch = OPS.call_us(work(model, "fp32"), 1, 0)
    assert fetch == pytest.approx(100 * weights_mb + 50 * kv_cache_bytes(model, 1) / 1e6)


def test_a_request_is_its_chunks_and_one_choice() -> None:
    todo = work(config(), "int8")
    chunks = sum(50 + 10 * 2 + 1.5 * OPS.call_us(todo, t, p)[0] for t, p in ((64, 0), (36, 64)))
    assert PREDICTOR.calls.first_token_us(todo, 100) == pytest.approx(chunks + 1 + 0.2 * 0.512)


@pytest.mark.parametrize(("n_embd", "n_layer", "per_mb"), [(64, 2, 3), (512, 4, 1)])
def test_load_and_memory_depend_on_where_the_weights_are(n_embd: int, n_layer: int, per_mb: int) -> None:
    model = config(n_embd=n_embd, n_layer=n_layer)
    size = weight_bytes(model, recipe(model, "fp32")) / 1e6
    found = PREDICTOR.predict(model, "fp32")
    cache = kv_cache_bytes(model, 256) / 1e6
    assert found.peak_rss_mb == pytest.approx(70 + 10 + 0.2 * n_layer + 0.512 + per_mb * size + cache)
    warm_up = PREDICTOR.calls.warm_up_us(work(model, "fp32")) / 1e3
    assert found.load_ms == pytest.approx(200 + 20 + n_layer + 5 * 0.512 + per_mb * size + warm_up)


@pytest.mark.parametrize("vocab_size", [512, 16384])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_predicted_size_of_a_file_is_an_upper_bound(
    vocab_size: int, precision: str, tmp_path: Path
) -> None:
    model = config(vocab_size=vocab_size, n_embd=128, n_layer=6)
    write_random_file(tmp_path / "model.onnx", model, precision)
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    size += contract.EVIDENCE_BYTES  # which an export adds
    stored = weight_bytes(model, recipe(model, precision))
    assert size - stored < 1e6 * artifact_mb(model, stored) - stored < 1.45 * (size - stored)
    assert PREDICTOR.predict(model, precision).artifact_mb == artifact_mb(model, stored)


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_model_planned_to_the_edge_keeps_its_size_when_it_is_exported(
    precision: str, tmp_path: Path
) -> None:
    """With a real tokenizer and the verification results that an export writes into the file."""
    model = ModelConfig.from_yaml(ROVER / "config.yaml")
    export_checkpoint(ROVER, tmp_path / "rover.onnx", precision=precision)
    planned = artifact_mb(model, weight_bytes(model, recipe(model, precision)))
    assert (tmp_path / "rover.onnx").stat().st_size / 1e6 < planned
    assert planned < 1.02 * (tmp_path / "rover.onnx").stat().st_size / 1e6


def test_a_table_is_interpolated_and_its_edges_hold_outside() -> None:
    places = {36: (1, 2, 0.5), 8: (1, 2, 0.0), 100: (2, 2, 0.0), 0: (0, 0, 0.0)}
    assert {at: neighbours([1, 8, 64], at) for at in places} == places
    curve = Curve({1: [(1.0, 0.0), (100.0, 10.0)], 3: [(1.0, 2.0)]})
    assert curve.at(1, 10.0) == pytest.approx(5.0)
    assert (curve.at(1, 0.1), curve.at(1, 1e6), curve.at(2, 1e6)) == (0.0, 10.0, 6.0)


def test_a_block_that_was_not_measured_costs_as_the_next_larger_one() -> None:
    model = config(n_embd=48, n_head=2)  # blocks of 16
    assert OPS.call_us(work(model, "int4"), 1, 0)[0] > 0


# Promises for every model

MODELS = st.builds(
    config,
    vocab_size=st.sampled_from([512, 4096, 32768]),
    block_size=st.sampled_from([128, 1024]),
    n_layer=st.integers(1, 24),
    n_embd=st.sampled_from([64, 192, 256, 512]),
    tie_embeddings=st.booleans(),
)


@given(MODELS, st.sampled_from(PRECISIONS), st.integers(1, 8), st.integers(0, 120), st.integers(1, 120))
def test_more_layers_or_a_larger_vocabulary_are_never_predicted_to_be_cheaper(
    model: ModelConfig, precision: str, more: int, cached: int, prompt: int
) -> None:
    for larger in ({"n_layer": model.n_layer + more}, {"vocab_size": 2 * model.vocab_size}):
        a, b = (
            PREDICTOR.predict(m, precision, cached_tokens=cached, prompt_tokens=prompt)
            for m in (model, ModelConfig(**{**vars(model), **larger}))
        )
        assert b.token_ms > a.token_ms
        assert b.ttft_ms > a.ttft_ms
        assert b.artifact_mb > a.artifact_mb


@given(MODELS, st.sampled_from(PRECISIONS), st.integers(0, 126), st.integers(0, 126))
def test_more_tokens_in_the_cache_are_never_predicted_to_be_faster(
    model: ModelConfig, precision: str, a: int, b: int
) -> None:
    few, many = sorted((a, b))
    todo = work(model, precision)
    assert PREDICTOR.calls.token_us(todo, few) <= PREDICTOR.calls.token_us(todo, many)


# The command

NANO = str(CONFIGS / "models" / "nano.yaml")
Predicted = Callable[..., dict[str, Any]]


@pytest.fixture
def predicted(tmp_path: Path, capsys: Capture) -> Predicted:
    """`predicted("--precision", "int8")` returns the facts of `edgegpt params` with the profile."""

    def facts_of(*arguments: str, option: str = "--profile") -> dict[str, Any]:
        capsys.readouterr()
        assert main(["params", NANO, option, str(profile_file(tmp_path)), *arguments, "--json"]) == 0
        facts: dict[str, Any] = json.loads(capsys.readouterr().out)
        return facts

    return facts_of


def test_params_names_the_board_of_the_profile(tmp_path: Path, capsys: Capture) -> None:
    assert main(["params", NANO, "--profile", str(profile_file(tmp_path))]) == 0
    assert TARGET.name in capsys.readouterr().out


def test_params_predicts_for_a_profile_all_precisions_or_one(predicted: Predicted) -> None:
    assert predicted() == predicted(option="--target")  # its older name
    found = predicted()["prediction"]
    assert (found["target"], found["threads"]) == (TARGET.name, 1)
    assert found["caveats"]
    assert set(PRECISIONS) <= set(found)
    one = predicted("--precision", "int8", "--cached-tokens", "10")["prediction"]
    assert one["int8"]["cached_tokens"] == 10
    assert one["int8"]["token_ms"] > 0
    assert "fp32" not in one


def test_a_smaller_cache_takes_its_share_off_the_predicted_memory(predicted: Predicted) -> None:
    whole, small = (predicted("--precision", "fp32", *more) for more in ([], ["--capacity", "64"]))
    a, b = (facts["prediction"]["fp32"] for facts in (whole, small))
    assert a["peak_rss_mb"] - b["peak_rss_mb"] == pytest.approx((whole["kv_bytes"] - small["kv_bytes"]) / 1e6)
    assert b["kv_cache_mb"] == pytest.approx(small["kv_bytes"] / 1e6)
    assert b["cached_tokens"] == 32
