"""The parts of benchmarks/peers.py that need no other engine."""

import math
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import peers
import pytest
import torch
from peer.engine import peer_of
from peer.genai_config import genai_config
from peer.install import pinned
from peer.measure import PREFILL, PROMPTS, STEPS, Result
from peer.parity import KL_LIMITS, Parity, parity
from peer.process import Child, PeerError, prepare
from peer.report import data, table
from peer.roster import REFERENCE, ROSTER, Row, version
from peer.schedule import turns
from peer.weights import draw_weights

from edgegpt.config.model import ModelConfig
from edgegpt.model.gpt import GPT

NAMES = ["a", "b", "c"]
SAME = Parity(kl=0.0, max_abs=0.0, top1=1.0, own=1.0)
MEMORY = {"rss": 90.0, "private": 50.0, "mapped": 40.0, "peak": 95.0}


def result(name: str, bits: int, step: float, error: str | None = None) -> Result:
    row = Row(name, "ours" if name.startswith("edgegpt") else "other", "fp32", bits, "numpy")
    return Result(row, error, SAME, {"import_ms": 1.0, "load_ms": 2.0}, MEMORY, [step] * 100, [3.0])


def test_every_engine_has_one_burst_in_every_turn() -> None:
    order = list(turns(NAMES, PROMPTS, rounds=5))
    assert len(order) == 5 * len(PROMPTS) * len(NAMES)
    for i in range(0, len(order), len(NAMES)):
        turn = order[i : i + len(NAMES)]
        assert sorted(name for name, _ in turn) == NAMES
        assert len({prompt for _, prompt in turn}) == 1
    assert set(Counter(order).values()) == {5}


def test_no_engine_always_follows_the_same_one_and_the_order_is_the_same_in_every_run() -> None:
    order = list(turns(NAMES, PROMPTS, rounds=5))
    assert order == list(turns(NAMES, PROMPTS, rounds=5))
    before = {(one, other) for (one, _), (other, _) in pairwise(order) if other == "a"}
    assert {one for one, _ in before} >= {"b", "c"}


def test_bursts_take_the_cache_from_64_to_192_tokens() -> None:
    assert [prompt + STEPS for prompt in PROMPTS[:-1]] == list(PROMPTS[1:])
    assert (PROMPTS[0], PROMPTS[-1] + STEPS) == (64, 192)
    assert PREFILL in PROMPTS


def test_a_table_has_a_cell_under_every_heading_and_lists_what_was_not_timed() -> None:
    results = [
        result("edgegpt fp32", 32, 100.0),
        result("fast", 32, 50.0),
        result("alone", 8, 70.0),
        result("broken", 4, 1.0, error="it fell over"),
    ]
    lines = list(table("nano", results))
    rows = [line for line in lines if line.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1
    assert rows[2].startswith("| edgegpt fp32 | 100 / 100 | 1.00 | 1.00x | 3.00 | 2 | 90: 50 + 40 |")
    assert "| 0.50x |" in rows[3]
    assert "x |" not in rows[4]  # no edgegpt with 8 bits to stand beside
    assert len(rows) == 5
    assert "- broken: it fell over" in lines


def test_data_for_machines_holds_every_step() -> None:
    (row,) = data("nano", 1, [result("edgegpt fp32", 32, 100.0)])
    assert (row["size"], row["row"]["name"], row["version"]) == ("nano", "edgegpt fp32", np.__version__)
    assert len(row["steps"]) == 100


def test_a_peer_that_computes_something_else_is_told_from_one_that_rounds() -> None:
    rng = np.random.default_rng(0)
    expected = rng.normal(size=(8, 100)).astype(np.float32)
    tokens = expected[-4:].argmax(-1).tolist()
    rounds = expected + rng.normal(scale=1e-4, size=expected.shape).astype(np.float32)
    assert parity(expected, rounds, tokens).failure(32) is None
    other = rng.normal(size=expected.shape).astype(np.float32)
    assert "something else" in (parity(expected, other, tokens).failure(4) or "")
    wrong_path = parity(expected, expected, [(token + 1) % 100 for token in tokens])
    assert "timed path" in (wrong_path.failure(32) or "")
    assert Parity(kl=math.nan, max_abs=0.0, top1=1.0, own=1.0).failure(32) is not None


def test_a_peer_of_a_reader_decodes_greedily_from_an_empty_cache() -> None:
    read: list[int] = []

    def logits(new: tuple[int, ...] | list[int]) -> np.ndarray:
        read.extend(new)
        return np.eye(5, dtype=np.float32)[(read[-1] + 1) % 5]

    peer = peer_of(read.clear, logits)
    for _ in range(2):
        marks, tokens = peer.burst([0, 1], 3)
        assert tokens == [2, 3, 4]
        assert read == [0, 1, 2, 3]
        assert len(marks) == 4
        assert marks == sorted(marks)
    assert peer.logits([0, 1, 2, 3], 2).argmax(-1).tolist() == [2, 3, 4]


def test_weights_of_a_benchmark_make_a_clear_first_token_that_hangs_on_every_block(
    tiny_config: ModelConfig,
) -> None:
    torch.manual_seed(0)
    model = GPT(tiny_config).eval()
    draw_weights(model)
    ids = torch.randint(tiny_config.vocab_size, (1, 40))
    with torch.no_grad():
        logits = model(ids)[0]
        first, second = logits.topk(2).values.unbind(-1)
        assert float((first - second).median()) > 1
        assert 0.5 < float(logits.std()) < 2
        for block in model.blocks:
            weight = block.attn.proj.weight.clone()
            block.attn.proj.weight.zero_()
            other = parity(logits.numpy(), model(ids)[0].numpy(), [0])
            assert other.kl > 100 * KL_LIMITS[32]
            block.attn.proj.weight.copy_(weight)


def test_a_child_that_cannot_prepare_says_why_in_one_sentence(tmp_path: Path) -> None:
    row = Row("nobody", "no_such_engine", "", 32, "numpy")
    with pytest.raises(PeerError, match=r"^ModuleNotFoundError: No module named 'peer\.no_such_engine'$"):
        prepare(row, tmp_path)
    with pytest.raises(PeerError, match="ModuleNotFoundError"):
        Child(row, tmp_path, 1)


def test_a_package_that_is_not_installed_is_said_so() -> None:
    assert version(Row("nobody", "nobody", "", 32, "no-such-package")) == "not installed"


def test_a_child_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peer.process.PATIENCE", 0.01)  # an interpreter takes longer to start
    with pytest.raises(PeerError, match=r"no answer within 0\.01 s"):
        Child(Row("slow", "ours", "fp32", 32, "numpy"), tmp_path, 1)
    with pytest.raises(PeerError, match=r"not made within 0\.01 s"):
        prepare(Row("slow", "ours", "fp32", 32, "numpy"), tmp_path)


@pytest.mark.slow
def test_edgegpt_proves_itself_and_is_timed_in_a_child(tmp_path: Path, tiny_checkpoint: Path) -> None:
    (tmp_path / "checkpoint").symlink_to(tiny_checkpoint)
    row = next(row for row in ROSTER if row.name == REFERENCE)
    prepare(row, tmp_path)
    child = Child(row, tmp_path, 1)
    try:
        ms, tokens = child.burst([1, 2, 3, 4, 5, 6, 7, 8], 6)
        logits = child.logits([1, 2, 3, 4, 5, 6, 7, 8, *tokens[:-1]], 8)
        assert len(ms) == 6
        assert logits[:, :270].argmax(-1).tolist() == tokens
        assert child.memory()["rss"] > 10
    finally:
        child.close()


@pytest.mark.parametrize(
    "words",
    [
        ["--sizes", "huge"],
        ["--rounds", "0"],
        ["--threads", "many"],
        ["--only", "nobody"],
        ["--json", "no/such/folder.json"],
    ],
)
def test_the_command_line_refuses_what_it_does_not_know(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["peers.py", *words])
    with pytest.raises(SystemExit, match="2"):
        peers.main()
    assert words[1] in capsys.readouterr().err


def test_pins_come_from_the_constraints() -> None:
    assert pinned("torch", "torchvision==1\ntorch==2.13.0 ; python_version > '3'\n") == "torch==2.13.0"
    assert pinned("torch", "torch==2.13.0\ntqdm==4\n") == "torch==2.13.0"
    assert pinned("torch", "") == "torch"


def test_genai_is_told_the_names_of_the_contract() -> None:
    config = ModelConfig(vocab_size=272, block_size=48, n_layer=2, n_head=2, n_embd=32)
    decoder = genai_config(config, "x.onnx")["model"]["decoder"]
    assert decoder["inputs"]["past_key_names"] == "past_key_values.%d.key"
    assert decoder["outputs"]["present_value_names"] == "present.%d.value"


@pytest.mark.parametrize(("type_name", "worst"), [("F32", 0.0), ("Q8_0", 0.01), ("Q4_0", 0.15)])
def test_a_gguf_file_holds_the_weights(tmp_path: Path, tiny_gpt: GPT, type_name: str, worst: float) -> None:
    gguf = pytest.importorskip("gguf")
    from peer.gguf_file import gguf_name, write_gguf

    weights = {name: parameter.detach().numpy() for name, parameter in tiny_gpt.named_parameters()}
    write_gguf(tmp_path / "x.gguf", tiny_gpt.config, weights, type_name)
    reader = gguf.GGUFReader(tmp_path / "x.gguf")
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    biases = {f"blk.{layer}.attn_qkv.bias" for layer in range(tiny_gpt.config.n_layer)}
    assert set(tensors) == {gguf_name(name) for name in weights} | biases
    for name, array in weights.items():
        tensor = tensors[gguf_name(name)]
        got = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        assert np.abs(got - array).max() <= worst * np.abs(array).max(), name
    assert tensors["output.weight"].tensor_type.name == {"Q4_0": "Q8_0"}.get(type_name, type_name)
    assert tensors["position_embd.weight"].tensor_type.name == "F32"
