"""Examples: commands drawn, joined, finished."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from . import out_of_scope, plans, style as surface
from .choose import pick
from .commands import ACTIONS, OBJECT_ACTIONS, PLANNED, Command, command

SPLITS = ("train", "plain", "unseen_phrasings", "unseen_objects")
OUT_OF_SCOPE = 0.08
LENGTHS = (1,) * 10 + (2,) * 5 + (3,) * 3 + (4,) * 2  # 50, 25, 15, 10 %
LONGEST_PROMPT = 220
SLIPS = 0.08
NOTHING = '{"commands":[]}'
encode = json.JSONEncoder(separators=(",", ":")).encode


class Example(NamedTuple):
    """An instruction, and the commands it means as compact JSON."""

    prompt: str
    completion: str


def generate(split: str, count: int, seed: int) -> Iterator[Example]:
    """`count` examples, the same ones for the same split and seed."""
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")
    if count < 0:
        raise ValueError(f"count must not be negative, got {count}")
    return _examples(
        split, count, Random(f"{split}:{seed}")
    )  # a str seed is hashed with SHA-512, not with hash()


def _examples(split: str, count: int, rng: Random) -> Iterator[Example]:
    for _ in range(count):
        if split != "unseen_objects" and rng.random() < OUT_OF_SCOPE:
            text, alone, imperative = out_of_scope.request(rng, split == "unseen_phrasings")
            yield Example(
                finish(rng, text, rng.random() < 0.3, text == "say", (), alone, imperative), NOTHING
            )
        else:
            yield plan(rng, split, pick(rng, LENGTHS))


def plan(rng: Random, split: str, length: int) -> Example:
    """`length` commands in one instruction; too long a one is drawn again, with as many commands."""
    while True:
        proper = rng.random() < 0.3
        commands = draw(rng, split, length)
        text = commands[0].text if length == 1 else plans.join(rng, commands, proper)
        last = commands[-1]
        copied = tuple(c for one in commands for c in one.copied)
        prompt = finish(
            rng, text, proper, last.bare, copied, commands[0].alone, surface.is_imperative(text), length == 1
        )
        if len(prompt) <= LONGEST_PROMPT:
            return Example(prompt, encode({"commands": [c.told for c in commands]}))


def draw(rng: Random, split: str, length: int) -> list[Any]:
    """The commands of one example."""
    forced = int(rng.random() * length)  # the command that makes the example one of its split
    commands: list[Any] = []
    for i in range(length):
        held = split == "unseen_phrasings" and (i == forced or rng.random() < 0.4)
        phrasings = "held out" if held else "plain" if split == "plain" else "train"
        unseen = split == "unseen_objects"
        before: Command | None = commands[-1] if commands else None
        it = ""
        if unseen and i == forced:
            action = pick(rng, OBJECT_ACTIONS)
        elif before and before.told["action"] in ("find", "pick") and rng.random() < 0.4:
            action = "pick" if before.told["action"] == "find" else "place"
            it = before.thing
        else:
            action = pick(rng, ACTIONS if length == 1 else PLANNED)
        while True:
            now = command(rng, action, phrasings, unseen, alone=length == 1, it=it)
            if before is None or now.told != before.told:
                break
            if action == "stop":
                action = pick(rng, PLANNED)
        commands.append(now)
    return commands


def finish(
    rng: Random,
    text: str,
    proper: bool,
    bare: bool,
    copied: tuple[Any, ...],
    alone: bool,
    imperative: bool,
    single: bool = True,
) -> str:
    """Politeness, slips, capitals and punctuation around the bare instruction."""
    if rng.random() < 0.45:
        text, question = surface.polite(rng, text, alone, imperative, single)
    else:
        question = False
    if not bare and not question and rng.random() < 0.09:
        text += pick(rng, surface.THANKS)
    if rng.random() < SLIPS:
        text = surface.slips(rng, text, copied)
    if proper:
        text = surface.capital(text, copied)
    text = surface.closing(rng, text, question, proper, bare)
    return text.upper() if not copied and rng.random() < 0.03 else text
