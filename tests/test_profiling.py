"""edgegpt.profiling: it times what the engine runs, and gives a board profile. No figure is judged."""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import onnx
import pytest
from helpers.sample_figures import FIGURES, MACHINE
from helpers.sample_target import TARGET
from hypothesis import given, strategies as st

import edgegpt
from edgegpt.cli.main import main
from edgegpt.config.model import ModelConfig
from edgegpt.prediction.cost_model import OpCosts
from edgegpt.prediction.target import Target
from edgegpt.profiling import profile, timing
from edgegpt.profiling.attention import measure_attention, measure_cache_streaming
from edgegpt.profiling.elementwise import measure_nodes
from edgegpt.profiling.engine_calls import measure_calls
from edgegpt.profiling.matmul import _INPUTS, TOKENS, above_near, measure_products, measure_streaming
from edgegpt.profiling.timing import fastest_us, fit
from edgegpt.quantization import PRECISIONS, block_size
from edgegpt.system import Moment
from edgegpt_export import synthetic
from edgegpt_export.synthetic import write_random_file

Capture = pytest.CaptureFixture[str]
SMALL = ModelConfig(
    vocab_size=300, block_size=64, n_layer=2, n_head=2, n_embd=64, qkv_bias=True, tie_embeddings=True
)


@pytest.mark.parametrize(("seconds", "calls"), [(0.001, 16), (0.06, 4), (5.0, 3)])
def test_a_burst_of_slow_calls_is_short(monkeypatch: pytest.MonkeyPatch, seconds: float, calls: int) -> None:
    """Else a slow board takes many minutes."""
    ends: list[float] = [0.0]
    monkeypatch.setattr(timing, "perf_counter", lambda: ends[-1])
    found = timing.burst_us(lambda: ends.append(ends[-1] + seconds), lambda: None, 0.0)
    assert found == pytest.approx(1e6 * seconds)
    assert len(ends) - 1 == 3 * calls


# Fitting


def test_a_fit_finds_the_terms_that_made_the_figures() -> None:
    terms = [(1.0, k / 1e3, n / 1e3, k * n / 1e6) for k in (64, 256, 1024) for n in (128, 512, 2048)]
    made = [2 * a + 0.5 * b + 3 * c + 40 * d for a, b, c, d in terms]
    assert fit(terms, made) == pytest.approx((2, 0.5, 3, 40))


@given(st.lists(st.floats(0.1, 100), min_size=5, max_size=5))
def test_a_fit_never_has_a_negative_term(measured: list[float]) -> None:
    terms = [(1.0, x, x * x) for x in (1.0, 2.0, 3.0, 5.0, 8.0)]
    assert min(fit(terms, measured)) >= 0


def test_a_value_lost_in_noise_is_left_out_of_a_fit() -> None:
    assert fit([(1.0,), (1.0,)], [-3.0, 5.0]) == pytest.approx((5.0,))


def test_every_kind_is_called_in_every_round() -> None:
    calls: list[str] = []
    found = fastest_us({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 0.0)
    assert calls.count("a") == calls.count("b") > 1
    assert set(found) == {"a", "b"}


def test_a_busy_moment_at_one_size_does_not_make_the_larger_ones_expensive() -> None:
    found = above_near({1.0: 5.0, 2.0: 4.5, 4.0: 99.0, 8.0: 15.0, 16.0: 14.0})
    assert found == {1.0: 0.0, 2.0: 0.0, 4.0: 9.0, 8.0: 9.0, 16.0: 9.0}


# Graphs


OF_SHAPE = ("K", "N", "block_size", "num_heads", "kv_num_heads")


def kinds(models: Iterable[onnx.ModelProto]) -> dict[str, set[str]]:
    """Return the attributes of each operator's nodes, without those that depend on the shape alone."""
    found: dict[str, set[str]] = defaultdict(set)
    for node in (node for model in models for node in model.graph.node):
        values = {a.name: str(onnx.helper.get_attribute_value(a)) for a in node.attribute}
        found[node.op_type].add(str(sorted(item for item in values.items() if item[0] not in OF_SHAPE)))
    return found


def test_the_profile_times_the_nodes_that_the_engines_graph_has(tmp_path: Path) -> None:
    for precision in PRECISIONS:
        write_random_file(tmp_path / f"{precision}.onnx", SMALL, precision)
    engine = kinds(onnx.load(str(path)) for path in tmp_path.glob("*.onnx"))
    made = [
        *(synthetic.matmuls(2, 64, 64, bits) for bits in (32, 8, 4)),
        *(synthetic.lookups(2, 8, 64, bits) for bits in (32, 8)),
        synthetic.attention(1, 2, 32),
        *(build(2, 64) for build in (synthetic.norms, synthetic.gelus, synthetic.additions)),
    ]
    timed = kinds(map(onnx.load_from_string, made))
    assert not {op: nodes - engine[op] for op, nodes in timed.items() if nodes - engine[op]}
    small = {"Cast", "ReduceMax", "Slice", "Reshape"}  # counted as additions, or gone once loaded
    assert engine.keys() - timed.keys() <= small


def test_every_block_of_the_table_is_measured_on_inputs_that_have_it() -> None:
    for (bits, block), inputs in _INPUTS.items():
        if bits != 32:
            assert {block_size(k, bits) for k in inputs} == {block}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_random_file_is_one_that_loads_and_answers(tmp_path: Path, precision: str) -> None:
    path = tmp_path / "random.onnx"
    write_random_file(path, SMALL, precision)
    model = edgegpt.load(path)
    assert model.tokenizer.vocab_size == 300
    assert model.generate("go").usage.prompt_tokens == 2


# Measuring, as briefly as possible


@pytest.mark.slow
def test_all_parts_of_a_profile_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one round of calls, as on a board with little memory, where large working sets are left out."""
    for name in ("_MIN_ROUNDS", "_MIN_BURSTS", "_BURST_CALLS"):
        monkeypatch.setattr(timing, name, 1)
    monkeypatch.setattr(timing, "_BURST_SECONDS", 0.0)
    monkeypatch.setattr("edgegpt.profiling.matmul.available_memory_bytes", lambda: 160_000_000)
    nodes = measure_nodes(synthetic, 1, 0.0, 0.0)
    streaming = list(measure_streaming(synthetic, 1, 0.0, 0.0))
    assert max(row.working_set_mb for row in streaming) == pytest.approx(16, abs=1)
    for a, b in pairwise(streaming):
        if (a.bits, a.tokens) == (b.bits, b.tokens):
            assert a.us_per_mb <= b.us_per_mb
    products = list(measure_products(synthetic, 1, 0.0, streaming, 0.0))
    assert {row.tokens for row in products} == set(TOKENS)
    cache = list(measure_cache_streaming(synthetic, 1, 0.0, 0.0))
    assert [row.us_per_mb for row in cache] == sorted(row.us_per_mb for row in cache)
    attention = list(measure_attention(synthetic, 1, 0.0, cache, 0.0))
    calls = measure_calls(write_random_file, 1, OpCosts(products, streaming, cache, attention, nodes), 0.0)
    assert calls.step.node_factor > 0


def test_noise_is_that_of_the_whole_profile_and_of_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {
        "_read_bandwidth": TARGET.read_bandwidth,
        "measure_dispatch_overhead": 1.0,
        "measure_nodes": TARGET.nodes,
        "measure_streaming": TARGET.streaming,
        "measure_products": TARGET.products,
        "measure_cache_streaming": TARGET.cache_streaming,
        "measure_attention": TARGET.attention,
        "measure_calls": TARGET.calls,
        "measure_processes": (TARGET.load, TARGET.memory, [replace(FIGURES, load_ms=150, load_waited_ms=75)]),
        "this_machine": replace(MACHINE, load=0.0),
    }
    for name, part in parts.items():
        monkeypatch.setattr(profile, name, lambda *_, part=part: part)
    moments = iter([Moment(0.0, 1.0, 0, 0), Moment(10.0, 5.0, 0, 0)])
    monkeypatch.setattr(profile, "moment", lambda: next(moments))
    here, loads = profile.profile_board(synthetic, write_random_file, seconds=0.0).noise
    assert "40 %" in here
    assert "50 %" in loads


# The command


@pytest.mark.parametrize("name", ["Hand CPU", "my arm"])
def test_a_profile_names_its_machine_once_and_no_schema_that_is_not_there(
    name: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = TARGET.model_copy(update={"name": name})
    monkeypatch.setattr("edgegpt.profiling.profile_board", lambda *_, **__: named)
    path = tmp_path / "profile.yaml"
    assert main(["profile", "--out", str(path)]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert (first.count("Hand CPU"), first.count("my arm")) == (1, int(name == "my arm"))
    assert path.read_text().startswith("name: ")
    assert Target.from_yaml(path) == named


def test_without_onnx_the_extra_is_named(
    tmp_path: Path, command_error: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("edgegpt_export")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert "[plan]" in command_error("profile", "--out", tmp_path / "profile.yaml")
