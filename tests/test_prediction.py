"""edgegpt.prediction: arithmetic on a board profile made by hand. No times are measured."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from conftest import ROVER
from helpers.sample_target import TARGET
from hypothesis import given, strategies as st

from edgegpt import contract
from edgegpt.accounting import kv_cache_bytes
from edgegpt.cli.main import main
from edgegpt.config.model import ModelConfig
from edgegpt.errors import ConfigError
from edgegpt.prediction.cost_model import Curve, ModelWork, neighbours
from edgegpt.prediction.predict import Predictor, artifact_mb
from edgegpt.quantization import PRECISIONS, recipe, weight_bytes
from edgegpt_export import export_checkpoint
from edgegpt_export.synthetic import write_random_file

ROOT = Path(__file__).parents[1]
PREDICTOR = Predictor(TARGET)
OPS = PREDICTOR.ops
Capture = pytest.CaptureFixture[str]
Refused = Callable[..., AbstractContextManager[None]]


def config(**changes: int | bool) -> ModelConfig:
    usual = {"vocab_size": 512, "block_size": 256, "n_layer": 2, "n_head": 2, "n_embd": 64}
    return ModelConfig(**{**usual, **changes})


def work(model: ModelConfig, precision: str) -> ModelWork:
    return ModelWork.of(model, recipe(model, precision))


# Arithmetic


def test_a_call_is_the_sum_of_its_nodes() -> None:
    d, v, cached = 64, 512, 100
    model = config(n_layer=1)

    def product(outputs: int, inputs: int) -> float:
        return 1 + inputs / 1e3 + 2 * outputs / 1e3 + 320 * outputs * inputs / 1e6

    pairs = cached + 1
    attention = 2 + 2 * d / 1e3 + 100 * d * pairs / 1e6 + 2 * pairs / 1e3
    lookups, biases = 2 * (0.5 + 0.5 * d / 1e3), 2 * (0.5 + 0.5 * d / 1e3)
    rest = 6 * 0.5 + lookups + biases + 3 * (1 + d / 1e3) + (1 + 4 * d / 1e3)
    products = product(3 * d, d) + product(d, d) + product(4 * d, d) + product(d, 4 * d) + product(v, d)
    # The model has 0.4 MB, less than the smallest working set, so nothing is fetched.
    nodes, fetch = OPS.call_us(work(model, "fp32"), 1, cached)
    assert nodes == pytest.approx(products + attention + rest)
    assert fetch == 0


def test_a_prompt_chunk_computes_every_row_until_the_last_attention() -> None:
    d, v, tokens, cached = 64, 512, 8, 20
    model = config(n_layer=2)

    def product(outputs: int, inputs: int, rows: int) -> float:
        per_million = 10.0 * 8 * (1 + rows // 8)  # rows are 1 or 8, both of them in the table
        return 1 + inputs / 1e3 + 2 * outputs / 1e3 + per_million * outputs * inputs / 1e6

    def after(rows: int) -> float:
        norms_and_gelu = 2 * (1 + d * rows / 1e3) + (1 + 4 * d * rows / 1e3)
        return product(d, d, rows) + product(4 * d, d, rows) + product(d, 4 * d, rows) + norms_and_gelu

    pairs = tokens * (cached + tokens)
    attention = 2 + 2 * d * tokens / 1e3 + 100 * d * pairs / 1e6 + 2 * pairs / 1e3
    before = product(3 * d, d, tokens) + attention
    lookups = 2 * (1 + d * tokens / 1e3)
    around = 6 * 0.5 + lookups + (1 + d * tokens / 1e3) + product(v, d, 1)
    nodes, fetch = OPS.call_us(work(model, "int8"), tokens, cached)
    assert nodes == pytest.approx(2 * before + after(tokens) + after(1) + around)
    assert fetch == 0


def test_a_large_model_pays_for_fetching_its_weights() -> None:
    model = config(
        n_layer=12, n_embd=512, n_head=8
    )  # some 150 MB, more than the largest working set of the table
    weights_mb = 4 * (12 * 12 * 512 * 512 + 512 * 512) / 1e6
    cache_mb = kv_cache_bytes(model, 1) / 1e6
    _, fetch = OPS.call_us(work(model, "fp32"), 1, 0)
    assert fetch == pytest.approx(100 * weights_mb + 50 * cache_mb)


def test_a_request_is_its_chunks_and_one_choice() -> None:
    todo = work(config(), "int8")
    whole = PREDICTOR.calls.first_token_us(todo, 100)
    chunks = sum(50 + 10 * 2 + 1.5 * OPS.call_us(todo, t, p)[0] for t, p in ((64, 0), (36, 64)))
    assert whole == pytest.approx(chunks + 1 + 0.2 * 0.512)


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
    path = tmp_path / "model.onnx"
    model = config(vocab_size=vocab_size, n_embd=128, n_layer=6)
    write_random_file(path, model, precision)
    files = sum(file.stat().st_size for file in tmp_path.iterdir())
    size = files + contract.EVIDENCE_BYTES  # which an export adds
    stored = weight_bytes(model, recipe(model, precision))
    assert size - stored < 1e6 * artifact_mb(model, stored) - stored < 1.45 * (size - stored)
    assert PREDICTOR.predict(model, precision).artifact_mb == artifact_mb(model, stored)


@pytest.mark.slow
def test_a_model_planned_to_the_edge_keeps_its_size_when_it_is_exported(tmp_path: Path) -> None:
    """With a real tokenizer and the verification results that an export writes into the file."""
    model = ModelConfig.from_yaml(ROVER / "config.yaml")
    for precision in PRECISIONS:
        export_checkpoint(ROVER, tmp_path / "rover.onnx", precision=precision)
        planned = artifact_mb(model, weight_bytes(model, recipe(model, precision)))
        size = (tmp_path / "rover.onnx").stat().st_size / 1e6
        assert size < planned < 1.02 * size


def test_a_table_is_interpolated_and_its_edges_hold_outside() -> None:
    assert neighbours([1, 8, 64], 36) == (1, 2, 0.5)
    assert neighbours([1, 8, 64], 8) == (1, 2, 0.0)
    assert neighbours([1, 8, 64], 100) == (2, 2, 0.0)
    assert neighbours([2, 8], 1) == (0, 0, 0.0)
    curve = Curve({1: [(1.0, 0.0), (100.0, 10.0)], 3: [(1.0, 2.0)]})
    assert curve.at(1, 10.0) == pytest.approx(5.0)
    assert curve.at(1, 0.1) == 0.0
    assert curve.at(1, 1e6) == 10.0
    assert curve.at(2, 1e6) == 6.0


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
def test_more_layers_are_never_predicted_to_be_faster(
    model: ModelConfig, precision: str, more: int, cached: int, prompt: int
) -> None:
    deeper = ModelConfig(**{**vars(model), "n_layer": model.n_layer + more})
    a, b = (
        PREDICTOR.predict(m, precision, cached_tokens=cached, prompt_tokens=prompt) for m in (model, deeper)
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


@given(MODELS, st.sampled_from(PRECISIONS))
def test_a_larger_vocabulary_is_never_predicted_to_be_cheaper(model: ModelConfig, precision: str) -> None:
    larger = ModelConfig(**{**vars(model), "vocab_size": 2 * model.vocab_size})
    a, b = (PREDICTOR.predict(m, precision) for m in (model, larger))
    assert b.token_ms > a.token_ms
    assert b.ttft_ms > a.ttft_ms
    assert b.artifact_mb > a.artifact_mb


# The command

NANO = str(ROOT / "configs" / "models" / "nano.yaml")


@pytest.fixture
def profile(tmp_path: Path) -> str:
    path = tmp_path / "profile.yaml"
    path.write_text(TARGET.to_yaml())
    return str(path)


def predicted(capsys: Capture, *arguments: str) -> dict[str, Any]:
    assert main(["params", NANO, *arguments, "--json"]) == 0
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return facts


def test_params_predicts_for_a_profile_and_names_its_board(profile: str, capsys: Capture) -> None:
    assert main(["params", NANO, "--profile", profile]) == 0
    assert TARGET.name in capsys.readouterr().out
    found = predicted(capsys, "--profile", profile)["prediction"]
    assert (found["target"], found["threads"]) == (TARGET.name, 1)
    assert found["caveats"]
    assert set(PRECISIONS) <= set(found)


def test_params_takes_the_profile_under_its_older_option_too(profile: str, capsys: Capture) -> None:
    assert predicted(capsys, "--target", profile) == predicted(capsys, "--profile", profile)


def test_params_predicts_one_precision(profile: str, capsys: Capture) -> None:
    arguments = ["--profile", profile, "--precision", "int8", "--cached-tokens", "10"]
    found = predicted(capsys, *arguments)["prediction"]
    assert found["int8"]["cached_tokens"] == 10
    assert found["int8"]["token_ms"] > 0
    assert "fp32" not in found


def test_a_smaller_cache_takes_its_share_off_the_predicted_memory(profile: str, capsys: Capture) -> None:
    arguments = ["--profile", profile, "--precision", "fp32"]
    whole, small = (predicted(capsys, *arguments, *more) for more in ([], ["--capacity", "64"]))
    a, b = (facts["prediction"]["fp32"] for facts in (whole, small))
    assert a["peak_rss_mb"] - b["peak_rss_mb"] == pytest.approx((whole["kv_bytes"] - small["kv_bytes"]) / 1e6)
    assert b["kv_cache_mb"] == pytest.approx(small["kv_bytes"] / 1e6)
    assert b["cached_tokens"] == 32


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (["--precision", "int8"], ["--precision", "--profile"]),
        (["--profile", "PROFILE", "--precision", "int2"], ["int2"]),
        (["--profile", "missing.yaml"], ["missing.yaml"]),
        (["--profile", "PROFILE", "--capacity", "64", "--cached-tokens", "64"], ["cached_tokens", "64"]),
        (["--profile", "PROFILE", "--prompt-tokens", "64", "--capacity", "64"], ["prompt_tokens", "64"]),
        (["--prompt-tokens", "5000"], ["prompt_tokens", "256", "5000"]),
        (["--profile", str(ROOT / "configs" / "budgets" / "ci.yaml")], ["ci.yaml", "budget"]),
    ],
)
def test_bad_input_is_one_sentence(
    profile: str, capsys: Capture, arguments: list[str], values: list[str]
) -> None:
    assert main(["params", NANO, *(profile if part == "PROFILE" else part for part in arguments)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert [value for value in values if value not in output.err] == []


def test_a_cache_fuller_than_the_context_is_refused(refused: Refused) -> None:
    with refused(ConfigError, "cached_tokens", 256):
        PREDICTOR.predict(config(), "fp32", cached_tokens=256)
