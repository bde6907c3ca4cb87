"""edgegpt.prediction and what it adds up: arithmetic on a target made by hand. No times are measured."""

import json
from pathlib import Path

import pytest
from conftest import ROVER
from helpers.sample_target import TARGET
from hypothesis import given, strategies as st

from edgegpt import contract
from edgegpt.accounting import kv_cache_bytes
from edgegpt.cli.main import main
from edgegpt.config.model import ModelConfig
from edgegpt.errors import ConfigError
from edgegpt.prediction.cost_model import Curve, ModelWork, between
from edgegpt.prediction.predict import Predictor, artifact_mb
from edgegpt.quantization import PRECISIONS, recipe, weight_bytes
from edgegpt_export import export_checkpoint
from edgegpt_export.synthetic import write_random_file

ROOT = Path(__file__).parents[1]
PREDICTOR = Predictor(TARGET)
OPS = PREDICTOR.calls._ops
Capture = pytest.CaptureFixture[str]


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
    # The model has 0.4 MB, and nothing is further away than in the smallest working set.
    near, fetch = OPS.call_us(work(model, "fp32"), 1, cached)
    assert near == pytest.approx(products + attention + rest)
    assert fetch == 0


def test_a_piece_of_a_prompt_reads_every_row_but_behind_the_last_attention() -> None:
    d, v, tokens, cached = 64, 512, 8, 20
    model = config(n_layer=2)

    def product(outputs: int, inputs: int, rows: int) -> float:
        per_million = 10.0 * 8 * (1 + rows // 8)  # rows are 1 or 8, which both stand in the table
        return 1 + inputs / 1e3 + 2 * outputs / 1e3 + per_million * outputs * inputs / 1e6

    def behind(rows: int) -> float:
        norms_and_gelu = 2 * (1 + d * rows / 1e3) + (1 + 4 * d * rows / 1e3)
        return product(d, d, rows) + product(4 * d, d, rows) + product(d, 4 * d, rows) + norms_and_gelu

    pairs = tokens * (cached + tokens)
    attention = 2 + 2 * d * tokens / 1e3 + 100 * d * pairs / 1e6 + 2 * pairs / 1e3
    in_front = product(3 * d, d, tokens) + attention
    lookups = 2 * (1 + d * tokens / 1e3)
    around = 6 * 0.5 + lookups + (1 + d * tokens / 1e3) + product(v, d, 1)
    near, fetch = OPS.call_us(work(model, "int8"), tokens, cached)
    assert near == pytest.approx(2 * in_front + behind(tokens) + behind(1) + around)
    assert fetch == 0


def test_a_large_model_pays_for_fetching_its_weights() -> None:
    model = config(n_layer=12, n_embd=512, n_head=8)  # some 150 MB, beyond the table
    weights_mb = 4 * (12 * 12 * 512 * 512 + 512 * 512) / 1e6
    cache_mb = kv_cache_bytes(model, 1) / 1e6
    _, fetch = OPS.call_us(work(model, "fp32"), 1, 0)
    assert fetch == pytest.approx(100 * weights_mb + 50 * cache_mb)


def test_a_request_is_its_pieces_and_one_choice() -> None:
    todo = work(config(), "int8")
    whole = PREDICTOR.calls.first_token_us(todo, 100)
    pieces = sum(50 + 10 * 2 + 1.5 * OPS.call_us(todo, t, p)[0] for t, p in ((64, 0), (36, 64)))
    assert whole == pytest.approx(pieces + 1 + 0.2 * 0.512)


@pytest.mark.parametrize(("n_embd", "n_layer", "per_mb"), [(64, 2, 3), (512, 4, 1)])
def test_load_and_memory_know_where_the_weights_lie(n_embd: int, n_layer: int, per_mb: int) -> None:
    model = config(n_embd=n_embd, n_layer=n_layer)
    size = weight_bytes(model, recipe(model, "fp32")) / 1e6
    found = PREDICTOR.predict(model, "fp32")
    cache = kv_cache_bytes(model, 256) / 1e6
    assert found.peak_rss_mb == pytest.approx(70 + 10 + 0.2 * n_layer + 0.512 + per_mb * size + cache)
    warm_up = PREDICTOR.calls.warm_up_us(work(model, "fp32")) / 1e3
    assert found.load_ms == pytest.approx(200 + 20 + n_layer + 5 * 0.512 + per_mb * size + warm_up)


@pytest.mark.parametrize("vocab_size", [512, 16384])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_size_of_a_file_is_foretold(vocab_size: int, precision: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model = config(vocab_size=vocab_size, n_embd=128, n_layer=6)
    write_random_file(path, model, precision)
    size = (
        sum(file.stat().st_size for file in tmp_path.iterdir()) + contract.EVIDENCE_BYTES
    )  # which an export adds
    stored = weight_bytes(model, recipe(model, precision))
    assert size - stored < 1e6 * artifact_mb(model, stored) - stored < 1.45 * (size - stored)
    assert PREDICTOR.predict(model, precision).artifact_mb == artifact_mb(model, stored)


@pytest.mark.slow
def test_a_model_planned_to_the_edge_keeps_its_size_when_it_is_exported(tmp_path: Path) -> None:
    """With a real tokenizer and the proof that an export writes into the file."""
    model = ModelConfig.from_yaml(ROVER / "config.yaml")
    for precision in PRECISIONS:
        export_checkpoint(ROVER, tmp_path / "rover.onnx", precision=precision)
        planned = artifact_mb(model, weight_bytes(model, recipe(model, precision)))
        size = (tmp_path / "rover.onnx").stat().st_size / 1e6
        assert size < planned < 1.02 * size


def test_between_the_points_of_a_table_lies_a_straight_line_and_beyond_it_its_edge() -> None:
    assert between([1, 8, 64], 36) == (1, 2, 0.5)
    assert between([1, 8, 64], 8) == (1, 2, 0.0)
    assert between([1, 8, 64], 100) == (2, 2, 0.0)
    assert between([2, 8], 1) == (0, 0, 0.0)
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


# As a user types it


@pytest.fixture
def target_file(tmp_path: Path) -> str:
    path = tmp_path / "target.yaml"
    path.write_text(TARGET.to_yaml())
    return str(path)


NANO = str(ROOT / "configs" / "models" / "nano.yaml")


def refused(capsys: Capture, *arguments: str) -> str:
    assert main(["params", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    return output.err


def test_params_predicts_for_a_target_and_says_whose_it_is(target_file: str, capsys: Capture) -> None:
    assert main(["params", NANO, "--target", target_file]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Predicted for hand board, 1 thread, medians" in text
    assert "Careful: the target 'hand board' was measured on another machine" in text


def test_params_predicts_one_precision_for_machines(target_file: str, capsys: Capture) -> None:
    arguments = ["params", NANO, "--target", target_file, "--precision", "int8", "--cached-tokens", "10"]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["prediction"]
    assert found["int8"]["cached_tokens"] == 10
    assert found["int8"]["token_ms"] > 0
    assert "fp32" not in found


def test_a_smaller_cache_takes_its_share_off_the_predicted_memory(target_file: str, capsys: Capture) -> None:
    def predicted(*more: str) -> tuple[int, dict[str, float]]:
        assert main(["params", NANO, "--target", target_file, "--precision", "fp32", *more, "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        return facts["kv_bytes"], facts["prediction"]["fp32"]

    (all_bytes, whole), (few_bytes, small) = predicted(), predicted("--capacity", "64")
    assert whole["peak_rss_mb"] - small["peak_rss_mb"] == pytest.approx((all_bytes - few_bytes) / 1e6)
    assert small["kv_cache_mb"] == pytest.approx(few_bytes / 1e6)
    assert small["cached_tokens"] == 32


def test_bad_input_is_one_sentence(target_file: str, capsys: Capture) -> None:
    assert "--precision needs --target" in refused(capsys, NANO, "--precision", "int8")
    assert "got 'int2'" in refused(capsys, NANO, "--target", target_file, "--precision", "int2")
    assert "does not exist" in refused(capsys, NANO, "--target", "missing.yaml")
    full = ["--capacity", "64", "--cached-tokens", "64"]
    sentence = "cached_tokens must be within 0 and capacity 64 - 1, got 64"
    assert sentence in refused(capsys, NANO, "--target", target_file, *full)
    long = ["--prompt-tokens", "5000"]
    assert "prompt_tokens must be within block_size 256, got 5000" in refused(capsys, NANO, *long)
    long = ["--prompt-tokens", "64", "--capacity", "64"]
    sentence = "prompt_tokens must be within 1 and capacity 64 - 1, got 64"
    assert sentence in refused(capsys, NANO, "--target", target_file, *long)
    budget = str(ROOT / "configs" / "budgets" / "ci.yaml")
    assert "is a budget, not a profile of a board" in refused(capsys, NANO, "--target", budget)


def test_a_cache_fuller_than_the_context_is_refused() -> None:
    with pytest.raises(ConfigError, match="cached_tokens must be within 0 and block_size 256 - 1, got 256"):
        PREDICTOR.predict(config(), "fp32", cached_tokens=256)
