"""The parts of benchmarks/peers.py that need no other engine."""

import math
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import peers
import pytest
import torch
from conftest import Refused
from peer.engine import Logits, peer_of
from peer.install import pinned
from peer.measure import KL_LIMITS, PREFILL, PROMPTS, STEPS, Parity, Result, parity, turns
from peer.process import Child, PeerError, prepare
from peer.report import data, table
from peer.roster import NOT_INSTALLED, REFERENCE, ROSTER, PeerSpec, version
from peer.weights import draw_weights

from edgegpt import contract
from edgegpt.config import ModelConfig
from edgegpt.model import GPT

NAMES = ["a", "b", "c"]
OURS = PeerSpec("edgegpt fp32", "ours", "fp32", 32, "numpy")
SAME = Parity(kl=0.0, max_abs=0.0, top1=1.0, own=1.0)
MEMORY = {"rss": 90.0, "private": 50.0, "mapped": 40.0, "peak": 95.0}


def result(name: str, bits: int, step: float, error: str | None = None) -> Result:
    spec = replace(OURS, name=name, bits=bits, module="ours" if name == OURS.name else "other")
    return Result(spec, error, SAME, {"import_ms": 1.0, "load_ms": 2.0}, MEMORY, [step] * 100, [3.0])


def test_every_engine_has_one_burst_in_every_turn_and_no_engine_always_follows_the_same_one() -> None:
    order = list(turns(NAMES, PROMPTS, rounds=5))
    for i in range(0, len(order), len(NAMES)):
        names, prompts = zip(*order[i : i + len(NAMES)], strict=True)
        assert sorted(names) == NAMES
        assert len(set(prompts)) == 1
    assert Counter(order) == {(name, prompt): 5 for name in NAMES for prompt in PROMPTS}
    assert {before for (before, _), (after, _) in pairwise(order) if after == "a"} >= {"b", "c"}
    assert order == list(turns(NAMES, PROMPTS, rounds=5))  # in every run


def test_bursts_take_the_cache_from_64_to_192_tokens() -> None:
    assert [prompt + STEPS for prompt in PROMPTS[:-1]] == list(PROMPTS[1:])
    assert (PROMPTS[0], PROMPTS[-1] + STEPS) == (64, 192)
    assert PREFILL in PROMPTS


def test_a_table_has_a_cell_under_every_heading_and_lists_what_was_not_timed_and_json_every_step() -> None:
    fast, alone = result("fast", 32, 50.0), result("alone", 8, 70.0)
    broken = result("broken", 4, 1.0, error="out of memory")
    results = [result(OURS.name, 32, 100.0), fast, alone, broken]
    lines = list(table("nano", results))
    header, rule, *rows = [line.strip("| ").split("|") for line in lines if line.startswith("|")]
    ours, *others = [[cell.strip() for cell in row] for row in rows]
    assert {len(row) for row in (rule, *rows)} == {len(header)}
    assert ours[:7] == [OURS.name, "100 / 100", "1.00", "1.00x", "3.00", "2", "90: 50 + 40"]
    # Nothing is compared with another number of bits: there is no edgegpt with 8 here.
    assert [(row[0], row[3]) for row in others] == [("fast", "0.50x"), ("alone", "")]
    assert f"- {broken.spec.name}: {broken.error}" in lines
    row = next(iter(data("nano", 1, results)))
    found = (row["size"], row["row"]["name"], row["version"], row["steps"])
    assert found == ("nano", OURS.name, np.__version__, [100.0] * 100)


def test_a_peer_that_computes_something_else_fails_and_one_that_rounds_passes() -> None:
    rng = np.random.default_rng(0)
    expected = rng.normal(size=(8, 100)).astype(np.float32)
    tokens = expected[-4:].argmax(-1).tolist()
    rounded = expected + rng.normal(scale=1e-4, size=expected.shape).astype(np.float32)
    other = rng.normal(size=expected.shape).astype(np.float32)
    assert parity(expected, rounded, tokens).failure(32) is None
    assert parity(expected, other, tokens).failure(4) is not None
    wrong_path = parity(expected, expected, [(token + 1) % 100 for token in tokens])
    assert wrong_path == replace(SAME, own=0.0)
    assert wrong_path.failure(32) is not None
    assert replace(SAME, kl=math.nan).failure(32) is not None


def test_a_peer_of_a_reader_decodes_greedily_from_an_empty_cache() -> None:
    read: list[int] = []

    def logits(new: Sequence[int]) -> Logits:
        read.extend(new)
        return np.roll(np.eye(1, 5, dtype=np.float32)[0], read[-1] + 1)

    peer = peer_of(read.clear, logits)
    for _ in range(2):
        marks, tokens = peer.burst([0, 1], 3)
        assert tokens == [2, 3, 4]
        assert read == [0, 1, 2, 3]
        assert (len(marks), marks) == (4, sorted(marks))
    assert peer.logits([0, 1, 2, 3], 2).argmax(-1).tolist() == [2, 3, 4]


def test_weights_of_a_benchmark_make_a_clear_first_token_that_depends_on_every_block(
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
        for layer in range(tiny_config.n_layer):
            weight = model.get_parameter(f"blocks.{layer}.attn.proj.weight")
            drawn = weight.clone()
            weight.zero_()
            assert parity(logits.numpy(), model(ids)[0].numpy(), [0]).kl > 100 * KL_LIMITS[32]
            weight.copy_(drawn)


def test_a_child_that_cannot_start_or_hangs_is_ended_and_reports_the_cause_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    def fails(spec: PeerSpec, value: object) -> None:
        with refused(PeerError, value):
            prepare(spec, tmp_path)
        with refused(PeerError, value):
            Child(spec, tmp_path, 1)

    fails(replace(OURS, module="no_such_engine"), "no_such_engine")
    monkeypatch.setattr("peer.process.TIMEOUT", 0.01)  # an interpreter takes longer to start
    fails(OURS, 0.01)


@pytest.mark.slow
def test_edgegpt_agrees_with_itself_and_is_timed_in_a_child(tmp_path: Path, tiny_checkpoint: Path) -> None:
    (tmp_path / "checkpoint").symlink_to(tiny_checkpoint)
    (spec,) = (spec for spec in ROSTER if spec.name == REFERENCE)
    prepare(spec, tmp_path)
    prompt = [1, 2, 3, 4, 5, 6, 7, 8]
    with closing(Child(spec, tmp_path, 1)) as child:
        ms, tokens = child.burst(prompt, 6)
        logits = child.logits([*prompt, *tokens[:-1]], 8)
        assert len(ms) == 6
        assert logits[:, :270].argmax(-1).tolist() == tokens
        assert child.memory()["rss"] > 10


@pytest.mark.parametrize(
    "words",
    ["--sizes huge", "--rounds 0", "--threads many", "--only no-such-engine", "--json no/such/folder"],
)
def test_the_command_line_refuses_values_it_does_not_know(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["peers.py", *words.split()])
    with pytest.raises(SystemExit, match="2"):
        peers.main()
    assert words.split()[1] in capsys.readouterr().err


def test_versions_come_from_the_installation_and_pins_from_the_constraints() -> None:
    assert version(replace(OURS, package="no-such-package")) == NOT_INSTALLED
    assert pinned("torch", "torchvision==1\ntorch==2.13.0 ; python_version > '3'\n") == "torch==2.13.0"
    assert pinned("torch", "torch==2.13.0\ntqdm==4\n") == "torch==2.13.0"
    assert pinned("torch", "") == "torch"


def test_genai_reads_the_names_of_the_contract(
    monkeypatch: pytest.MonkeyPatch, tiny_config: ModelConfig
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime_genai", MagicMock())
    from peer.genai import genai_config

    decoder = genai_config(tiny_config, "x.onnx")["model"]["decoder"]
    for part, prefix, names in (
        ("inputs", "past", contract.past_names(7)),
        ("outputs", "present", contract.present_names(7)),
    ):
        assert [decoder[part][f"{prefix}_{kind}_names"] % 7 for kind in ("key", "value")] == list(names)


@pytest.mark.parametrize(("type_name", "worst"), [("F32", 0.0), ("Q8_0", 0.01), ("Q4_0", 0.15)])
def test_a_gguf_file_holds_the_weights(
    tmp_path: Path, tiny_gpt: GPT, type_name: str, worst: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    gguf = pytest.importorskip("gguf")
    monkeypatch.setitem(sys.modules, "llama_cpp", MagicMock())
    from peer.llama import gguf_name, write_gguf

    weights = {name: parameter.detach().numpy() for name, parameter in tiny_gpt.named_parameters()}
    write_gguf(tmp_path / "x.gguf", tiny_gpt.config, weights, type_name)
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(tmp_path / "x.gguf").tensors}
    biases = {f"blk.{layer}.attn_qkv.bias" for layer in range(tiny_gpt.config.n_layer)}
    assert set(tensors) == {gguf_name(name) for name in weights} | biases
    for name, array in weights.items():
        tensor = tensors[gguf_name(name)]
        got = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        assert np.abs(got - array).max() <= worst * np.abs(array).max(), name
    assert tensors["output.weight"].tensor_type.name == {"Q4_0": "Q8_0"}.get(type_name, type_name)
    assert tensors["position_embd.weight"].tensor_type.name == "F32"
