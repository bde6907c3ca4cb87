"""Training: the same model from the same run file, interrupted or not, and errors before the work."""

import errno
import json
import os
import re
import signal
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from conftest import Refused
from hypothesis import given, strategies as st
from safetensors.torch import load_file

from edgegpt.config.model import ModelConfig
from edgegpt.errors import ConfigError, DataError, EdgeGPTError, TrainingError
from edgegpt.examples import Pair, parse_jsonl
from edgegpt.model.checkpoint import load_checkpoint
from edgegpt.tokenizer import Tokenizer
from edgegpt.training.config import RunConfig, Source
from edgegpt.training.dataset import IGNORE, batches, collate, encode, read_examples
from edgegpt.training.loop import STATE, TrainingProgress, learning_rate, train

MODEL = ModelConfig(vocab_size=300, block_size=64, n_layer=1, n_head=2, n_embd=16, dropout=0.1)
OPTIONS = {"resume", "on_progress", "on_stage"}  # of `train`; all else changes the run
Start = Callable[..., Path]  # of the fixture `start`
ROVER = Path(__file__).parents[1] / "configs" / "training" / "rover.yaml"


@pytest.fixture
def run(tmp_path: Path) -> RunConfig:
    rows = [{"prompt": f"count to {n}", "completion": " ".join(map(str, range(n)))} for n in range(1, 9)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return RunConfig(
        out="checkpoint",
        model=MODEL,
        tokenizer_split="words",
        train=[Source(path="pairs.jsonl")],
        validation={"same": Source(path="pairs.jsonl")},
        steps=6,
        batch_tokens=128,
        learning_rate=1e-3,
        warmup_steps=2,
        validate_every=2,
        threads=1,
    )


@pytest.fixture
def start(run: RunConfig, tmp_path: Path) -> Start:
    """`start(steps=3)` trains the run with changes and returns the folder of the model."""

    def start(**changes: Any) -> Path:
        options = {name: changes.pop(name) for name in OPTIONS & changes.keys()}
        return train(run.model_copy(update=changes), tmp_path, **options)

    return start


def same_weights(one: Path, other: Path) -> bool:
    ours, theirs = (load_checkpoint(folder).model.state_dict() for folder in (one, other))
    return all(torch.equal(weight, theirs[name]) for name, weight in ours.items())


def interrupt_after(step: int) -> Callable[[TrainingProgress], None]:
    def callback(progress: TrainingProgress) -> None:
        if progress.step == step:
            os.kill(os.getpid(), signal.SIGINT)

    return callback


# What a run gives


def test_the_same_run_gives_the_same_model_interrupted_or_not(
    start: Start, tmp_path: Path, refused: Refused
) -> None:
    whole, state = start(), tmp_path / "halves" / STATE
    assert same_weights(start(out="again"), whole)
    with pytest.raises(KeyboardInterrupt):
        start(out="halves", on_progress=interrupt_after(3))
    assert state.is_file()
    with refused(TrainingError, state, "--resume"):
        start(out="halves")
    with refused(TrainingError, state, "learning_rate"):
        start(resume=True, out="halves", learning_rate=0.5)
    assert same_weights(start(resume=True, out="halves"), whole)
    assert not state.exists()
    assert same_weights(start(out="late", on_progress=interrupt_after(6)), whole)


def test_training_lowers_the_loss_and_reports_each_validation(start: Start) -> None:
    seen: list[TrainingProgress] = []
    start(steps=60, learning_rate=1e-2, on_progress=seen.append)
    assert seen[-1].loss < 0.5 * seen[0].loss
    assert [p.step for p in seen if p.validations] == list(range(2, 61, 2))
    assert seen[-1].validations["same"].loss < seen[1].validations["same"].loss


@pytest.mark.parametrize(("name", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16)])
def test_a_text_trains_too_and_weights_are_stored_as_asked(
    start: Start, tmp_path: Path, name: str, dtype: torch.dtype
) -> None:
    (tmp_path / "text.txt").write_text("the robot drives to the kitchen and back. " * 40)
    text = Source(path="text.txt")
    out = start(train=[text], validation={"text": text}, stored_weights=name)
    assert load_checkpoint(out).tokenizer.prompt_suffix == ()
    assert {tensor.dtype for tensor in load_file(out / "model.safetensors").values()} == {dtype}


def test_a_run_continues_from_a_checkpoint_with_its_tokenizer(start: Start) -> None:
    seen: list[TrainingProgress] = []
    first = start(on_progress=seen.append)
    more = {"model": None, "tokenizer_split": None, "start_from": "checkpoint", "out": "more"}
    second = start(on_progress=seen.append, **more)
    assert load_checkpoint(second).tokenizer.to_json() == load_checkpoint(first).tokenizer.to_json()
    assert seen[len(seen) // 2].loss < seen[0].loss


def test_the_model_may_be_a_file_next_to_the_run_file(run: RunConfig, start: Start, tmp_path: Path) -> None:
    (tmp_path / "planned.yaml").write_text(f"# Planned\n{MODEL.to_yaml()}")
    rows = run.model_dump(mode="json", exclude_none=True) | {"model": "planned.yaml"}
    (tmp_path / "run.yaml").write_text(json.dumps(rows))
    named = train(RunConfig.from_yaml(tmp_path / "run.yaml"), tmp_path)
    assert load_checkpoint(named).model.config == MODEL
    assert same_weights(named, start(out="again"))


# What a run refuses


def test_a_model_file_that_is_bad_or_changed_is_refused(
    start: Start, tmp_path: Path, refused: Refused
) -> None:
    file = tmp_path / "planned.yaml"
    with refused(ConfigError, file):
        start(model=file.name)
    file.write_text(MODEL.to_yaml().replace("n_head: 2", "n_head: 5"))
    with refused(ConfigError, file, "n_embd", "n_head", 16, 5):
        start(model=file.name)
    assert not (tmp_path / "checkpoint").exists()
    file.write_text(MODEL.to_yaml())
    with pytest.raises(KeyboardInterrupt):
        start(model=file.name, on_progress=interrupt_after(1))
    file.write_text(MODEL.to_yaml().replace("n_layer: 1", "n_layer: 2"))
    with refused(TrainingError, "model"):
        start(resume=True, model=file.name)


def test_what_has_the_name_of_the_model_is_never_replaced(
    start: Start, tmp_path: Path, refused: Refused
) -> None:
    weights, stages = start() / "model.safetensors", Mock()
    before = weights.read_bytes()
    with refused(TrainingError, weights):
        start(steps=3)
    assert weights.read_bytes() == before
    (tmp_path / "file").write_text("in the way")
    with refused(TrainingError, tmp_path / "file"):
        start(out="file", on_stage=stages)
    stages.assert_not_called()


@pytest.mark.parametrize("state", [None, b"not a checkpoint", {"run": 5}, {"run": {}}, [], {"model": {}}])
def test_a_missing_or_foreign_state_is_not_resumed(
    start: Start, tmp_path: Path, state: object, refused: Refused
) -> None:
    path = tmp_path / "checkpoint" / STATE
    path.parent.mkdir()
    if isinstance(state, bytes):
        path.write_bytes(state)
    elif state is not None:
        torch.save(state, path)
    with refused(TrainingError, path):
        start(resume=True)


def test_the_state_is_saved_without_validation_sets_too_and_a_full_disk_is_named(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    crash = Mock(side_effect=[None] * 4 + [RuntimeError])
    with pytest.raises(RuntimeError):
        start(validation={}, on_progress=crash)
    assert (tmp_path / "checkpoint" / STATE).is_file()
    full = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr("lightning_fabric.Fabric.save", full)
    with refused(TrainingError, tmp_path / "full" / STATE, "No space left on device"):
        start(out="full")
    assert list((tmp_path / "full").iterdir()) == []


def test_a_diverging_run_stops_with_the_step(start: Start, refused: Refused) -> None:
    with refused(TrainingError, "nan", "step", 1e30):
        start(learning_rate=1e30, steps=50)


# Batches


def test_only_the_completion_and_its_end_count(tiny_tokenizer: Tokenizer) -> None:
    dataset = encode([Pair("turn left", "ok"), Pair("stop", "done now")], tiny_tokenizer, 48)
    inputs, targets = collate(dataset, np.array([0, 1]))
    for row, completion in enumerate(["ok", "done now"]):
        counted = targets[row][targets[row] != IGNORE].tolist()
        assert counted == [*tiny_tokenizer.encode(completion), tiny_tokenizer.eos_id]
    assert inputs.shape == targets.shape


def test_windows_of_a_text_predict_each_token_once(tiny_tokenizer: Tokenizer) -> None:
    text = "drive forward two metres and turn left. " * 9
    dataset = encode([text], tiny_tokenizer, 48)
    assert dataset.lengths.max() == 49
    targets = [collate(dataset, np.array([i]))[1][0] for i in range(len(dataset))]
    predicted = [t for row in targets for t in row.tolist() if t != IGNORE]
    assert predicted == [*tiny_tokenizer.encode(text), tiny_tokenizer.eos_id][1:]


@given(st.lists(st.integers(2, 60), min_size=1, max_size=80), st.integers(16, 200), st.integers(0, 5))
def test_an_epoch_takes_each_example_once_and_fits_the_budget(
    lengths: list[int], batch_tokens: int, seed: int
) -> None:
    array = np.array(lengths)
    taken: list[int] = []
    for batch in batches(array, batch_tokens, seed):
        assert len(batch) == 1 or len(batch) * (array[batch].max() - 1) <= batch_tokens
        taken.extend(batch.tolist())
        if len(taken) >= len(lengths):
            break
    assert sorted(taken) == list(range(len(lengths)))


def test_epochs_differ_and_a_seed_repeats() -> None:
    one, other = ([b.tolist() for b in islice(batches(np.full(64, 10), 100, seed=1), 14)] for _ in range(2))
    assert one == other
    assert one[:7] != one[7:]


def test_the_learning_rate_warms_up_and_falls_to_nothing(run: RunConfig) -> None:
    rates = [learning_rate(run, step) for step in range(run.steps + 1)]
    assert rates[0] == run.learning_rate / 2
    assert max(rates) == rates[2] == run.learning_rate
    assert rates[-1] == pytest.approx(0.0, abs=1e-12)


# Examples


PAIRS = [("a", "\ud800"), ("", "x"), ("a", ""), ("x",), (1, "x")]
BAD_LINES = [json.dumps(dict(zip(("prompt", "completion"), pair, strict=False))) for pair in PAIRS]


@pytest.mark.parametrize("line", [*BAD_LINES, "[" * 100_000, "not json", "[1, 2]", "null"])
def test_a_bad_jsonl_line_is_named_with_its_number(line: str, refused: Refused) -> None:
    with refused(DataError, "data.jsonl", "line 2"):
        list(parse_jsonl('{"prompt": "a", "completion": "b"}\n' + line, "data.jsonl"))


def test_missing_empty_and_overlong_examples_are_refused(
    tmp_path: Path, tiny_tokenizer: Tokenizer, refused: Refused
) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    for name in ("nowhere.jsonl", "empty.jsonl"):
        with refused(DataError, tmp_path / name):
            read_examples(Source(path=name), tmp_path)
    with refused(TrainingError, 48, "left left"):
        encode([Pair("left " * 30, "ok")], tiny_tokenizer, 48)


def test_a_run_has_one_start_and_each_source_is_a_file_or_a_generator(run: RunConfig) -> None:
    for changes in ({"model": None}, {"start_from": "checkpoint"}):
        with pytest.raises(ValueError, match="start_from"):
            RunConfig.model_validate({**run.model_dump(), **changes})
    for wrong in ({}, {"path": "a.jsonl", "generator": "robot_commands"}, {"path": "a.csv"}):
        with pytest.raises(ValueError, match="path"):
            Source(**wrong)
    for name in ("", ".above", "a/b", "../a", "a:", ":b", "a:b:c", "a:b.c", "two words"):
        with pytest.raises(ValueError, match=re.escape(repr(name))):
            Source(generator=name)


GENERATOR = """
def generate(split, count, seed):
    if split != "train":
        raise ValueError(f"no split {split!r}\\nin two lines")
    return ((f"{seed} plus {n}", str(seed + n)) for n in range(count))

def interrupted(split, count, seed):
    raise KeyboardInterrupt

endless = lambda split, count, seed: iter(lambda: ["a", "list"], None)
few = lambda split, count, seed: [("a", "b")]
text = lambda split, count, seed: ["ab"] * count
numbers = lambda split, count, seed: [("a", 1)] * count
blank = lambda split, count, seed: [(" ", "blank prompt")] * count
surrogate = lambda split, count, seed: [("\\ud800", "b")] * count
no_arguments = lambda: []
number = 3
"""


@pytest.fixture
def generators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module of generators, and one that cannot be imported."""
    (tmp_path / "some_generators.py").write_text(GENERATOR)
    (tmp_path / "broken_generator.py").write_text("import no_such_module_at_all")
    monkeypatch.delitem(sys.modules, "some_generators", raising=False)
    return tmp_path


def test_a_generator_is_called_with_split_examples_and_seed(generators: Path) -> None:
    before = list(sys.path)
    source = Source(generator="some_generators", examples=3, seed=40)
    assert read_examples(source, generators) == [Pair(f"40 plus {n}", str(40 + n)) for n in range(3)]
    assert read_examples(source, generators.parent, generators.name)[2] == ("40 plus 2", "42")
    endless = Source(generator="some_generators:endless", examples=2)
    assert read_examples(endless, generators) == [Pair("a", "list")] * 2
    assert sys.path == before


@pytest.mark.parametrize(
    ("name", "error", "value"),
    [
        ("no_such_module", ConfigError, "FOLDER"),
        ("broken_generator", ConfigError, "FOLDER"),
        ("some_generators:no_such", ConfigError, "FOLDER"),
        ("some_generators:number", ConfigError, "FOLDER"),
        ("some_generators:few", DataError, "1 of 10"),
        ("some_generators:text", DataError, "'ab'"),
        ("some_generators:numbers", DataError, "('a', 1)"),
        ("some_generators:blank", DataError, "blank prompt"),
        ("some_generators:surrogate", DataError, r"\ud800"),
        ("some_generators:no_arguments", DataError, "TypeError"),
        ("some_generators:generate", DataError, "'test'"),
    ],
)
def test_a_generator_that_is_missing_or_yields_or_raises_what_it_should_not_is_named(
    generators: Path, name: str, error: type[EdgeGPTError], value: str, refused: Refused
) -> None:
    with refused(error, name, value.replace("FOLDER", str(generators))):
        read_examples(Source(generator=name, split="test", examples=10), generators)


def test_a_run_trains_on_a_generator_and_ctrl_c_ends_it(generators: Path, start: Start) -> None:
    source = Source(generator="some_generators", examples=20)
    out = start(train=[source], validation={"same": source})
    assert load_checkpoint(out).model.config == MODEL
    with pytest.raises(KeyboardInterrupt):
        read_examples(Source(generator="some_generators:interrupted"), generators)


@pytest.mark.parametrize(
    ("edits", "values"),
    [
        ({"n_layer:": "n_layers:"}, ["n_layers'", "'n_layer'"]),
        ({"n_layer: 4": "n_layer: four", "seed:": "sed:"}, ["n_layer", "'four'", "'sed'", "'seed'"]),
        ({"n_head: 6": "n_head: 5"}, ["n_embd", "n_head", "192", "5"]),
        ({"model:": "model: nano\nshape:"}, ["model", "'nano'", "'shape'"]),
        ({"examples: 400000": "exmples: 400000"}, ["train.0.exmples", "'examples'"]),
    ],
)
def test_mistakes_in_a_run_file_are_named(
    edits: dict[str, str], values: list[str], tmp_path: Path, refused: Refused
) -> None:
    text = ROVER.read_text()
    for old, new in edits.items():
        assert old in text
        text = text.replace(old, new)
    broken = tmp_path / "run.yaml"
    broken.write_text(text)
    with refused(ConfigError, broken, *values):
        RunConfig.from_yaml(broken)
