import errno
import json
import os
import re
import signal
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from edgegpt.config.model import ModelConfig
from edgegpt.errors import ConfigError, DataError, TrainingError
from edgegpt.examples import Pair, parse_jsonl
from edgegpt.model.checkpoint import load_checkpoint
from edgegpt.tokenizer import Tokenizer
from edgegpt.training.config import RunConfig, Source
from edgegpt.training.dataset import IGNORE, batches, collate, encode, read_examples
from edgegpt.training.loop import STATE, Progress, learning_rate, train

MODEL = {"vocab_size": 300, "block_size": 64, "n_layer": 1, "n_head": 2, "n_embd": 16, "dropout": 0.1}


@pytest.fixture
def run(tmp_path: Path) -> RunConfig:
    rows = [{"prompt": f"count to {n}", "completion": " ".join(map(str, range(n)))} for n in range(1, 9)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return RunConfig(
        out="checkpoint",
        model=ModelConfig(**MODEL),
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


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_checkpoint(folder).model.state_dict()


def test_the_same_run_gives_the_same_model(run: RunConfig, tmp_path: Path) -> None:
    first = train(run, tmp_path)
    second = train(run.model_copy(update={"out": "again"}), tmp_path)
    assert all(torch.equal(a, weights(second)[name]) for name, a in weights(first).items())


def test_an_interrupted_run_resumes_to_the_very_same_model(run: RunConfig, tmp_path: Path) -> None:
    whole = train(run, tmp_path)

    def interrupt(progress: Progress) -> None:
        if progress.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    halves = run.model_copy(update={"out": "halves"})
    with pytest.raises(KeyboardInterrupt):
        train(halves, tmp_path, on_progress=interrupt)
    assert (tmp_path / "halves" / STATE).is_file()
    with pytest.raises(TrainingError, match="unfinished run"):
        train(halves, tmp_path)
    with pytest.raises(TrainingError, match="other values of learning_rate"):
        train(halves.model_copy(update={"learning_rate": 0.5}), tmp_path, resume=True)
    resumed = train(halves, tmp_path, resume=True)
    assert all(torch.equal(a, weights(resumed)[name]) for name, a in weights(whole).items())
    assert not (tmp_path / "halves" / STATE).exists()


def test_an_interrupt_in_the_last_step_loses_nothing(run: RunConfig, tmp_path: Path) -> None:
    whole = train(run, tmp_path)

    def interrupt(progress: Progress) -> None:
        if progress.step == run.steps:
            os.kill(os.getpid(), signal.SIGINT)

    late = train(run.model_copy(update={"out": "late"}), tmp_path, on_progress=interrupt)
    assert all(torch.equal(a, weights(late)[name]) for name, a in weights(whole).items())


def test_training_lowers_the_loss_and_reports_each_validation(run: RunConfig, tmp_path: Path) -> None:
    seen: list[Progress] = []
    train(run.model_copy(update={"steps": 60, "learning_rate": 1e-2}), tmp_path, on_progress=seen.append)
    assert seen[-1].loss < 0.5 * seen[0].loss
    assert [p.step for p in seen if p.validations] == list(range(2, 61, 2))
    assert seen[-1].validations["same"].loss < seen[1].validations["same"].loss


def test_a_text_trains_too(run: RunConfig, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the robot drives to the kitchen and back. " * 40)
    text = Source(path="text.txt")
    out = train(run.model_copy(update={"train": [text], "validation": {"text": text}}), tmp_path)
    assert load_checkpoint(out).tokenizer.prompt_suffix == ()


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_weights_are_stored_as_asked(run: RunConfig, tmp_path: Path, dtype: str) -> None:
    from safetensors.torch import load_file

    out = train(run.model_copy(update={"steps": 3, "stored_weights": dtype}), tmp_path)
    stored = {tensor.dtype for tensor in load_file(out / "model.safetensors").values()}
    assert stored == {{"fp16": torch.float16, "bf16": torch.bfloat16}[dtype]}


def test_a_run_goes_on_from_a_checkpoint_with_its_tokenizer(run: RunConfig, tmp_path: Path) -> None:
    first = train(run, tmp_path)
    changes = {"model": None, "tokenizer_split": None, "start_from": "checkpoint", "out": "more"}
    more = run.model_copy(update=changes)
    seen: list[Progress] = []
    second = train(more, tmp_path, on_progress=seen.append)
    assert load_checkpoint(second).tokenizer.to_json() == load_checkpoint(first).tokenizer.to_json()
    fresh: list[Progress] = []
    train(run.model_copy(update={"out": "fresh"}), tmp_path, on_progress=fresh.append)
    assert seen[0].loss < fresh[0].loss


def test_the_shape_may_lie_in_a_file_of_its_own_beside_the_run(run: RunConfig, tmp_path: Path) -> None:
    config = run.model
    assert isinstance(config, ModelConfig)
    (tmp_path / "planned.yaml").write_text(f"# Planned\n{config.to_yaml()}")
    rows = run.model_dump(mode="json", exclude_none=True) | {"model": "planned.yaml"}
    (tmp_path / "run.yaml").write_text(json.dumps(rows))
    named = RunConfig.from_yaml(tmp_path / "run.yaml")
    trained = load_checkpoint(train(named, tmp_path)).model
    same = weights(train(run.model_copy(update={"out": "again"}), tmp_path))
    assert trained.config == config
    assert all(torch.equal(value, same[name]) for name, value in trained.state_dict().items())


def test_a_shape_that_changed_under_its_name_is_another_run(run: RunConfig, tmp_path: Path) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    named, file = run.model_copy(update={"model": "planned.yaml"}), tmp_path / "planned.yaml"
    file.write_text(ModelConfig(**MODEL).to_yaml())
    with pytest.raises(KeyboardInterrupt):
        train(named, tmp_path, on_progress=interrupt)
    file.write_text(ModelConfig(**MODEL | {"n_layer": 2}).to_yaml())
    with pytest.raises(TrainingError, match="model"):
        train(named, tmp_path, resume=True)


def test_a_bad_file_of_a_shape_is_one_sentence_before_the_work(run: RunConfig, tmp_path: Path) -> None:
    named, file = run.model_copy(update={"model": "planned.yaml"}), tmp_path / "planned.yaml"
    with pytest.raises(ConfigError, match=r"planned\.yaml does not exist$"):
        train(named, tmp_path)
    file.write_text(ModelConfig(**MODEL).to_yaml().replace("n_head: 2", "n_head: 5"))
    with pytest.raises(
        ConfigError, match=r"planned\.yaml: n_embd must be divisible by n_head, got 16 and 5$"
    ):
        train(named, tmp_path)
    assert not (tmp_path / "checkpoint").exists()


def test_a_run_begins_anew_or_goes_on(run: RunConfig) -> None:
    for changes in ({"model": None}, {"start_from": "checkpoint"}):
        with pytest.raises(ValueError, match="give either model"):
            RunConfig.model_validate({**run.model_dump(), **changes})


def test_a_finished_model_is_never_replaced(run: RunConfig, tmp_path: Path) -> None:
    out = train(run, tmp_path)
    before = (out / "model.safetensors").read_bytes()
    with pytest.raises(TrainingError, match=r"model\.safetensors is there already"):
        train(run.model_copy(update={"steps": 3}), tmp_path)
    assert (out / "model.safetensors").read_bytes() == before


def test_nothing_to_resume_is_said(run: RunConfig, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no unfinished run to resume"):
        train(run, tmp_path, resume=True)


def test_a_damaged_state_is_said(run: RunConfig, tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / STATE).write_bytes(b"not a checkpoint")
    with pytest.raises(TrainingError, match="cannot be resumed"):
        train(run, tmp_path, resume=True)


def test_the_state_is_saved_without_validation_sets_too(run: RunConfig, tmp_path: Path) -> None:
    def crash(progress: Progress) -> None:
        if progress.step == 5:
            raise RuntimeError("the power went")

    with pytest.raises(RuntimeError, match="the power went"):
        train(run.model_copy(update={"validation": {}}), tmp_path, on_progress=crash)
    assert (tmp_path / "checkpoint" / STATE).is_file()


def test_a_state_that_cannot_be_saved_names_its_file(
    run: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("lightning_fabric.Fabric.save", full)
    with pytest.raises(TrainingError, match=f"{STATE} cannot be saved: No space left on device"):
        train(run, tmp_path)
    assert list((tmp_path / "checkpoint").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_said_before_the_work(run: RunConfig, tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text("in the way")
    stages: list[str] = []
    with pytest.raises(TrainingError, match="checkpoint cannot be written: File exists"):
        train(run, tmp_path, on_stage=stages.append)
    assert stages == []


@pytest.mark.parametrize("state", [{"run": 5}, {"run": {}}, [], {"model": {}}])
def test_a_state_of_something_else_is_said(run: RunConfig, tmp_path: Path, state: object) -> None:
    (tmp_path / "checkpoint").mkdir()
    torch.save(state, tmp_path / "checkpoint" / STATE)
    with pytest.raises(TrainingError, match="delete it to start again"):
        train(run, tmp_path, resume=True)


def test_a_diverging_run_stops_with_the_step(run: RunConfig, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="the loss is nan at step"):
        train(run.model_copy(update={"learning_rate": 1e30, "steps": 50}), tmp_path)


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


@settings(deadline=None)
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
    lengths = np.full(64, 10)
    two_epochs = [batch.tolist() for batch in islice(batches(lengths, 100, seed=1), 14)]
    assert two_epochs == [batch.tolist() for batch in islice(batches(lengths, 100, seed=1), 14)]
    assert two_epochs[:7] != two_epochs[7:]


def test_the_learning_rate_warms_up_and_falls_to_nothing(run: RunConfig) -> None:
    rates = [learning_rate(run, step) for step in range(run.steps + 1)]
    assert rates[0] == run.learning_rate / 2
    assert max(rates) == rates[2] == run.learning_rate
    assert rates[-1] == pytest.approx(0.0, abs=1e-12)


def test_a_lone_surrogate_is_refused_with_its_line() -> None:
    with pytest.raises(DataError, match=r"data\.jsonl, line 1: a lone surrogate"):
        list(parse_jsonl('{"prompt": "a", "completion": "\\ud800"}', "data.jsonl"))


@pytest.mark.parametrize("line", ['{"prompt": "", "completion": "x"}', '{"prompt": "a", "completion": ""}'])
def test_an_empty_prompt_or_completion_is_refused(line: str) -> None:
    with pytest.raises(DataError, match=r"data\.jsonl, line 1: prompt and completion must not be empty"):
        list(parse_jsonl(line, "data.jsonl"))


@pytest.mark.parametrize(
    "line",
    ["[" * 100_000, "not json", "[1, 2]", '{"prompt": "x"}', '{"prompt": 1, "completion": "x"}', "3", "null"],
)
def test_a_bad_jsonl_line_is_named(line: str) -> None:
    with pytest.raises(DataError, match=r"data\.jsonl, line 2: expected"):
        list(parse_jsonl('{"prompt": "a", "completion": "b"}\n' + line, "data.jsonl"))


def test_missing_empty_and_overlong_examples_are_said(tmp_path: Path, tiny_tokenizer: Tokenizer) -> None:
    with pytest.raises(DataError, match=r"nowhere\.jsonl cannot be read"):
        read_examples(Source(path="nowhere.jsonl"), tmp_path)
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(DataError, match="holds no examples"):
        read_examples(Source(path="empty.jsonl"), tmp_path)
    with pytest.raises(TrainingError, match="tokens but block_size is 48"):
        encode([Pair("left " * 30, "ok")], tiny_tokenizer, 48)


def test_a_source_is_a_file_or_a_generator() -> None:
    for wrong in ({}, {"path": "a.jsonl", "generator": "robot_commands"}, {"path": "a.csv"}):
        with pytest.raises(ValueError, match=r"either path or generator|must end in"):
            Source(**wrong)


@pytest.mark.parametrize("name", ["", ".above", "a/b", "../a", "a:", ":b", "a:b:c", "a:b.c", "two words"])
def test_what_is_no_import_path_is_refused_with_the_run_file(name: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"got {name!r}")):
        Source(generator=name)


GENERATOR = """
def generate(split, count, seed):
    if split != "train":
        raise ValueError(f"no split {split!r}\\nin two lines")
    return ((f"{seed} plus {n}", str(seed + n)) for n in range(count))

def other(split, count, seed):
    return [("from", "other")] * (count + 5)

def endless(split, count, seed):
    while True:
        yield ["a", "list"]

def interrupted(split, count, seed):
    raise KeyboardInterrupt

few = lambda split, count, seed: [("a", "b")]
nothing = lambda split, count, seed: None
text = lambda split, count, seed: ["ab"] * count
numbers = lambda split, count, seed: [("a", 1)] * count
triples = lambda split, count, seed: [("a", "b", "c")] * count
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
    for name, pair in (("other", Pair("from", "other")), ("endless", Pair("a", "list"))):
        named = Source(generator=f"some_generators:{name}", examples=2)
        assert read_examples(named, generators) == [pair] * 2
    assert sys.path == before


@pytest.mark.parametrize(
    "name", ["no_such_module", "broken_generator", "some_generators:no_such", "some_generators:number"]
)
def test_a_generator_that_is_not_there_is_named(generators: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=name) as error:
        read_examples(Source(generator=name), generators)
    assert str(generators) in str(error.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("few", "1 of 10"),
        ("nothing", "NoneType"),
        ("text", "'ab'"),
        ("numbers", "('a', 1)"),
        ("triples", "('a', 'b', 'c')"),
        ("blank", "blank prompt"),
        ("surrogate", r"\ud800"),
        ("no_arguments", "TypeError"),
    ],
)
def test_what_a_generator_should_not_yield_is_shown(generators: Path, name: str, value: str) -> None:
    with pytest.raises(DataError, match=re.escape(value)) as error:
        read_examples(Source(generator=f"some_generators:{name}", examples=10), generators)
    assert f"some_generators:{name}" in str(error.value)


def test_an_error_of_a_generator_becomes_one_line_with_the_split(generators: Path) -> None:
    with pytest.raises(DataError, match="no split 'test'") as error:
        read_examples(Source(generator="some_generators", split="test"), generators)
    assert "\n" not in str(error.value)
    with pytest.raises(KeyboardInterrupt):
        read_examples(Source(generator="some_generators:interrupted"), generators)


def test_a_run_trains_on_a_generator_of_its_own(generators: Path, run: RunConfig) -> None:
    source = Source(generator="some_generators", examples=20)
    out = train(run.model_copy(update={"train": [source], "validation": {"same": source}}), generators)
    assert load_checkpoint(out).model.config.vocab_size == 300


def test_the_shipped_run_file_loads_and_its_mistakes_are_named(tmp_path: Path) -> None:
    rover = Path(__file__).parents[1] / "configs" / "training" / "rover.yaml"
    run = RunConfig.from_yaml(rover)
    assert (
        len(read_examples(run.train[0].model_copy(update={"examples": 5}), rover.parent, run.generator_path))
        == 5
    )
    broken = tmp_path / "run.yaml"
    broken.write_text(rover.read_text().replace("n_layer: 4", "n_layers: 4"))
    with pytest.raises(ConfigError, match=r"model: .*unknown key 'n_layers', did you mean 'n_layer'\?"):
        RunConfig.from_yaml(broken)
    broken.write_text(
        rover.read_text().replace("n_layer: 4", "n_layer: four").replace("n_embd:", "n_emb:") + "step: 1\n"
    )
    with pytest.raises(ConfigError) as error:
        RunConfig.from_yaml(broken)
    for value in (str(broken), "model", "n_layer", "'four'", "'n_embd'", "'n_emb'"):
        assert value in str(error.value)
    broken.write_text(re.sub("n_head: .*", "n_head: 5", rover.read_text()))
    with pytest.raises(ConfigError, match=r"model: n_embd must be divisible by n_head, got 192 and 5$"):
        RunConfig.from_yaml(broken)
    broken.write_text(rover.read_text().replace("model:", "model: nano\nshape:"))
    sentence = "model must be `key: value` lines or the path of a .yaml with them, got 'nano'"
    with pytest.raises(ConfigError, match=sentence):
        RunConfig.from_yaml(broken)
    broken.write_text(rover.read_text().replace("examples: 400000", "exmples: 400000"))
    with pytest.raises(ConfigError, match=r"unknown key 'train.0.exmples', did you mean 'examples'\?"):
        RunConfig.from_yaml(broken)
