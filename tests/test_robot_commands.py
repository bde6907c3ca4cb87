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
def test_every_completion_is_valid_and_compact(examples: Examples, split: str) -> None:
    schema = robot_commands.schema()
    validator = jsonschema.Draft202012Validator(schema)
    order = {
        options["properties"]["action"]["const"]: list(options["properties"])
        for options in schema["properties"]["commands"]["items"]["anyOf"]
    }
    for example in examples[split]:
        answer = json.loads(example.completion)
        validator.validate(answer)
        assert example.completion == json.dumps(answer, separators=(",", ":"))
        assert "\\" not in example.completion
        assert "\n" not in example.prompt
        assert 0 < len(example.prompt) <= 220
        for command in answer["commands"]:
            assert list(command) == order[command["action"]]
            for number in (command.get("distance_m"), command.get("seconds")):
                assert number is None or (
                    number == round(number, 2) and not (isinstance(number, float) and number.is_integer())
                )


def test_all_ten_actions_are_taught(examples: Examples) -> None:
    for split in SPLITS:
        assert {c["action"] for e in examples[split] for c in commands_of(e)} == set(phrasings.PHRASINGS)


@pytest.mark.parametrize("split", SPLITS)
def test_a_shorter_run_is_the_beginning_of_a_longer_one(examples: Examples, split: str) -> None:
    assert list(generate(split, 200, seed=11)) == examples[split][:200]
    assert list(generate(split, 200, seed=13)) != examples[split][:200]


@pytest.mark.parametrize("split", SPLITS)
def test_examples_are_the_same_byte_for_byte_as_those_that_rover_was_trained_on(split: str) -> None:
    text = "".join(f"{prompt}\n{completion}\n" for prompt, completion in generate(split, 2000, seed=7))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == DIGESTS[split]


def test_examples_do_not_depend_on_hash_randomisation() -> None:
    code = "from robot_commands import *; print([list(generate(s, 50, 3)) for s in SPLITS])"
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(robot_commands.__file__).parents[1],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


@pytest.mark.parametrize("split", SPLITS)
def test_copied_texts_are_in_the_prompt_letter_by_letter(examples: Examples, split: str) -> None:
    for example in examples[split]:
        for command in commands_of(example):
            for key in ("object", "on", "text"):
                assert command.get(key, "") in example.prompt, example


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


def test_held_out_nouns_never_occur_in_training(train_prompts: list[str]) -> None:
    held = {
        word
        for text in (vocabulary.HELD_OUT_NOUNS, vocabulary.HELD_OUT_SURFACES)
        for p in templates.split_words(text)
        for word in p.rstrip("*").split()
    }
    assert len(held) >= 60
    kept = {
        word
        for text in (vocabulary.TRAIN_NOUNS, vocabulary.TRAIN_SURFACES)
        for p in templates.split_words(text)
        for word in p.rstrip("*").split()
    }
    assert len(kept) >= 250
    assert not held & kept
    assert not held & {word for prompt in train_prompts for word in re.findall("[a-z]+", prompt.lower())}


def test_invented_words_follow_the_crc_rule(examples: Examples) -> None:
    rng = Random(1)
    assert all(vocabulary.is_held_out(vocabulary.invent_word(rng, True)) for _ in range(200))
    assert not any(vocabulary.is_held_out(vocabulary.invent_word(rng, False)) for _ in range(200))
    for split in SPLITS:
        invented = {
            w for e in examples[split] for o in objects_of(e) for w in o.split() if w not in vocabulary.TAKEN
        }
        assert len(invented) > 500
        assert {vocabulary.is_held_out(w) for w in invented} == {split == "unseen_objects"}


def test_every_unseen_objects_example_names_a_new_object(examples: Examples) -> None:
    held = {
        p.rstrip("*")
        for text in (vocabulary.HELD_OUT_NOUNS, vocabulary.HELD_OUT_SURFACES)
        for p in templates.split_words(text)
    }
    for example in examples["unseen_objects"]:
        named = objects_of(example)
        assert named
        for name in named:
            assert any(name == noun or name.endswith(" " + noun) for noun in held) or vocabulary.is_held_out(
                name.split()[-1]
            ), example


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


@pytest.mark.parametrize(
    ("half_feet", "metres"), [(1, 0.15), (2, 0.3), (5, 0.76), (6, 0.91), (20, 3.05), (64, 9.75)]
)
def test_feet_become_metres(half_feet: int, metres: float) -> None:
    assert quantities.number(quantities.feet_to_hundredths(half_feet)) == metres


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


def test_numbers_in_words() -> None:
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


def test_the_command_line_refuses_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--split", "test", "--count", "20", "--out", str(tmp_path / "a")]) == 2
    assert "got 'test'" in capsys.readouterr().err
    assert main(["--count", "-1", "--out", str(tmp_path / "a")]) == 2
    assert "got -1" in capsys.readouterr().err
    assert main(["--count", "1", "--out", str(tmp_path / "no" / "a")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
