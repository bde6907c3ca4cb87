"""What the training data of `rover` promises."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import pytest
import robot_commands
from robot_commands import (
    SPLITS,
    Example,
    generate,
    out_of_scope,
    phrasings,
    quantities,
    templates,
    vocabulary,
)
from robot_commands.__main__ import main
from robot_commands.commands import TEMPLATES

COUNT = 3000
Examples = dict[str, list[Example]]  # of every split
DIGESTS = {
    "train": "c5760a71ac68f472",
    "plain": "5505a29d7217ba60",
    "unseen_phrasings": "5464a2254136268f",
    "unseen_objects": "44af12f2f986eea1",
}


@pytest.fixture(scope="module")
def examples() -> Examples:
    return {split: list(generate(split, COUNT, seed=11)) for split in SPLITS}


@pytest.fixture(scope="module")
def train_prompts() -> list[str]:
    return [example.prompt for example in generate("train", 20_000, seed=12)]


def commands_of(example: Example) -> list[dict[str, Any]]:
    commands: list[dict[str, Any]] = json.loads(example.completion)["commands"]
    return commands


def objects_of(example: Example) -> list[str]:
    return [c[key] for c in commands_of(example) for key in ("object", "on") if key in c]


@pytest.mark.parametrize("split", SPLITS)
def test_every_completion_is_valid_and_compact_and_all_ten_actions_are_taught(
    examples: Examples, split: str
) -> None:
    schema = robot_commands.schema()
    validator = jsonschema.Draft202012Validator(schema)
    order = {
        options["properties"]["action"]["const"]: list(options["properties"])
        for options in schema["properties"]["commands"]["items"]["anyOf"]
    }
    for prompt, completion in examples[split]:
        answer = json.loads(completion)
        validator.validate(answer)
        assert completion == json.dumps(answer, separators=(",", ":"))
        assert "\\" not in completion
        assert "\n" not in prompt
        assert 0 < len(prompt) <= 220
        for command in answer["commands"]:
            assert list(command) == order[command["action"]]
            for number in (command.get("distance_m", 0), command.get("seconds", 0)):
                assert number == round(number, 2)
                assert not (isinstance(number, float) and number.is_integer())
            # Texts are copied from the prompt letter by letter.
            assert all(command.get(key, "") in prompt for key in ("object", "on", "text")), prompt
    assert {c["action"] for e in examples[split] for c in commands_of(e)} == set(phrasings.PHRASINGS)


@pytest.mark.parametrize("split", SPLITS)
def test_examples_are_the_same_byte_for_byte_as_those_that_rover_was_trained_on(
    examples: Examples, split: str
) -> None:
    text = "".join(f"{prompt}\n{completion}\n" for prompt, completion in generate(split, 2000, seed=7))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == DIGESTS[split]
    # A shorter run is the beginning of a longer one.
    assert list(generate(split, 200, seed=11)) == examples[split][:200]
    assert list(generate(split, 200, seed=13)) != examples[split][:200]


def test_examples_do_not_depend_on_hash_randomisation() -> None:
    code = "from robot_commands import *; print([list(generate(s, 50, 3)) for s in SPLITS])"
    root = Path(robot_commands.__file__).parents[1]
    one, other = (
        subprocess.check_output(
            [sys.executable, "-c", code], cwd=root, env={**os.environ, "PYTHONHASHSEED": seed}
        )
        for seed in ("1", "2")
    )
    assert one == other


@pytest.mark.parametrize("group", [*TEMPLATES, "out of scope"])
def test_held_out_templates_are_new_phrasings_of_known_words(group: str) -> None:
    variants = out_of_scope.DIVISIONS if group == "out of scope" else TEMPLATES[group]
    train = {t for kept, _ in variants.values() for t in kept}
    held = {t for _, out in variants.values() for t in out}
    assert 0.04 < len(held) / len(train | held) < 0.2
    assert set().union(*map(templates.words_of, held)) <= set().union(*map(templates.words_of, train))
    said = set().union(*map(templates.expansions, train))
    assert not said & set().union(*map(templates.expansions, held))


def test_no_validation_prompt_occurs_in_training(examples: Examples, train_prompts: list[str]) -> None:
    seen = set(train_prompts)
    for split in ("unseen_phrasings", "unseen_objects"):
        assert not [e.prompt for e in examples[split] if e.prompt in seen]


def phrases(*texts: str) -> set[str]:
    return {phrase.rstrip("*") for text in texts for phrase in templates.split_words(text)}


HELD_OUT = phrases(vocabulary.HELD_OUT_NOUNS, vocabulary.HELD_OUT_SURFACES)
KEPT = phrases(vocabulary.TRAIN_NOUNS, vocabulary.TRAIN_SURFACES)


def test_held_out_nouns_never_occur_in_training(train_prompts: list[str]) -> None:
    held, kept = ({word for phrase in some for word in phrase.split()} for some in (HELD_OUT, KEPT))
    assert len(held) >= 60
    assert len(kept) >= 250
    assert not held & kept
    assert not held & {word for prompt in train_prompts for word in re.findall("[a-z]+", prompt.lower())}


def test_invented_words_follow_the_crc_rule(examples: Examples) -> None:
    rng = Random(1)
    assert all(vocabulary.is_held_out(vocabulary.invent_word(rng, True)) for _ in range(200))
    assert not any(vocabulary.is_held_out(vocabulary.invent_word(rng, False)) for _ in range(200))
    for split in SPLITS:
        words = {word for e in examples[split] for name in objects_of(e) for word in name.split()}
        invented = words - set(vocabulary.TAKEN)
        assert len(invented) > 500
        assert {vocabulary.is_held_out(word) for word in invented} == {split == "unseen_objects"}


def test_every_unseen_objects_example_names_a_new_object(examples: Examples) -> None:
    for example in examples["unseen_objects"]:
        named = objects_of(example)
        assert named
        for name in named:
            known = any(f" {name}".endswith(f" {noun}") for noun in HELD_OUT)
            assert known or vocabulary.is_held_out(name.split()[-1]), example


def test_half_of_the_training_examples_with_objects_hold_an_invented_word(examples: Examples) -> None:
    named = [objects_of(e) for e in examples["train"] if objects_of(e)]
    strange = [n for n in named if any(w not in vocabulary.TAKEN for o in n for w in o.split())]
    assert 0.45 < len(strange) / len(named) < 0.75


def test_distribution_of_command_counts(examples: Examples) -> None:
    for split in ("train", "unseen_phrasings"):
        counts = Counter(len(commands_of(e)) for e in examples[split])
        assert 0.06 < counts[0] / COUNT < 0.1
        for commands, share in ((1, 0.5), (2, 0.25), (3, 0.15), (4, 0.1)):
            assert abs(counts[commands] / (COUNT - counts[0]) - share) < 0.03


def test_quantities_in_prompts_mean_what_they_say() -> None:
    plain = re.compile(
        r"^(?:move|drive|go|roll|travel) forward (\d+(?:\.\d+)?) ?"
        r"(m|cm|ft|metres?|meters?|centimetres?|centimeters?|feet|foot)[.!]?$"
    )
    factor = {"m": 1, "c": 0.01, "f": 0.3048}
    seen: Counter[str] = Counter()
    for prompt, completion in generate("train", 40_000, seed=14):
        if match := plain.match(prompt.lower()):
            amount, unit = match.groups()
            if completion == '{"commands":[]}':
                assert float(amount) * factor[unit[0]] > 10
                continue
            (command,) = json.loads(completion)["commands"]
            assert command["distance_m"] == round(float(amount) * factor[unit[0]] + 1e-9, 2), prompt
            seen[unit[0]] += 1
    assert len(seen) == 3


def test_feet_become_metres_and_numbers_words() -> None:
    for half_feet, metres in {1: 0.15, 2: 0.3, 5: 0.76, 6: 0.91, 20: 3.05, 64: 9.75}.items():
        assert quantities.number(quantities.feet_to_hundredths(half_feet)) == metres
    assert quantities.in_words(35) == "thirty five"
    assert quantities.in_words(120, hundred="a hundred") == "a hundred and twenty"
    assert quantities.decimal_words(205) == "two point zero five"
    rng = Random(2)
    halves = {quantities.fraction_words(rng, 250, "metre", "metres") for _ in range(50)}
    assert halves == {"two and a half metres"}
    assert quantities.fraction_words(rng, 50, "metre", "metres") == "half a metre"


def test_the_command_line_writes_json_lines(tmp_path: Path) -> None:
    out = tmp_path / "some.jsonl"
    assert main(["--split", "unseen_objects", "--count", "20", "--seed", "3", "--out", str(out)]) == 0
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert rows == [e._asdict() for e in generate("unseen_objects", 20, seed=3)]
    assert [path.name for path in tmp_path.iterdir()] == ["some.jsonl"]


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("--split test --count 20 --out a", "'test'"),
        ("--count -1 --out a", "-1"),
        ("--count 1 --out no/a", "no/a"),
    ],
)
def test_the_command_line_refuses_in_one_sentence(
    words: str,
    value: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    error = capsys.readouterr().err
    assert value in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
