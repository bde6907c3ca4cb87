"""Examples: draw commands, join them to one instruction, and give it a style."""

import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from . import out_of_scope, style
from .commands import ACTIONS, ACTIONS_OF_PLANS, OBJECT_ACTIONS, Command, Phrasings, command
from .templates import choose, split_bars

SPLITS = ("train", "plain", "unseen_phrasings", "unseen_objects")
OUT_OF_SCOPE = 0.08  # share of examples
LENGTHS = (1,) * 10 + (2,) * 5 + (3,) * 3 + (4,) * 2  # 50, 25, 15, 10 %
LONGEST_PROMPT = 220
SLIPS = 0.08  # share of examples with typing slips
NO_COMMANDS = '{"commands":[]}'
encode = json.JSONEncoder(separators=(",", ":")).encode

# What joins two commands, between bars because blanks count.
THEN = split_bars(
    " then | and then |, then |, and then | and | and | and |, |; |; then |; next |, after that |"
    " and after that |, next |. |. |. then |. next, |. after that, |. now |"
    ", and once that is done |. once you've done that, |. when you're done, |, and afterwards |"
    ". afterwards, "
)
LAST = split_bars(
    " and then |, and finally | and finally |. finally, |; finally |, and | and |. lastly, |"
    ", then |, and at the end "
)
AFTER_FIRST = split_bars(", then | then |. then | and then |, second, |; then ")
# After unquoted speech: nothing that could be more of it.
AFTER_SPEECH = split_bars(
    ", then |; then |; next |. then |. after that, |. once you've done that, |, after that |; after that "
)


class Example(NamedTuple):
    """An instruction, and the commands that it means as compact JSON."""

    prompt: str
    completion: str


def generate(split: str, count: int, seed: int) -> Iterator[Example]:
    """Yield `count` examples, the same ones for the same split and seed.

    Raises:
        ValueError: `split` is none of SPLITS, or `count` is negative.
    """
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")
    if count < 0:
        raise ValueError(f"count must not be negative, got {count}")
    rng = Random(f"{split}:{seed}")  # a str is hashed with SHA-512, the same in every process
    return (example(rng, split) for _ in range(count))


def example(rng: Random, split: str) -> Example:
    """Draw one example of a split."""
    if split != "unseen_objects" and rng.random() < OUT_OF_SCOPE:
        return example_out_of_scope(rng, split == "unseen_phrasings")
    length = choose(rng, LENGTHS)
    while True:  # an instruction that is too long is replaced by one with as many commands
        proper = rng.random() < 0.3
        commands = draw_commands(rng, split, length)
        prompt = instruction(rng, commands, proper)
        if len(prompt) <= LONGEST_PROMPT:
            return Example(prompt, encode({"commands": [one.output for one in commands]}))


def example_out_of_scope(rng: Random, held_out: bool) -> Example:
    """Draw a request that the robot cannot carry out."""
    request = out_of_scope.request(rng, held_out)
    proper = rng.random() < 0.3
    prompt = finish(
        rng,
        request.text,
        proper=proper,
        open_end=request.text == "say",
        standalone=request.standalone,
        imperative=request.imperative,
    )
    return Example(prompt, NO_COMMANDS)


def draw_commands(rng: Random, split: str, length: int) -> list[Command]:
    """Draw the commands of one example."""
    forced = int(rng.random() * length)  # the command that makes the example one of its split
    unseen = split == "unseen_objects"
    commands: list[Command] = []
    for i in range(length):
        phrasings: Phrasings = "plain" if split == "plain" else "train"
        if split == "unseen_phrasings" and (i == forced or rng.random() < 0.4):
            phrasings = "held out"
        before = commands[-1].output if commands else {}
        it = ""
        if unseen and i == forced:
            action = choose(rng, OBJECT_ACTIONS)
        elif before.get("action") in ("find", "pick") and rng.random() < 0.4:
            action = "pick" if before["action"] == "find" else "place"
            it = str(before["object"])
        else:
            action = choose(rng, ACTIONS if length == 1 else ACTIONS_OF_PLANS)
        while True:
            now = command(rng, action, phrasings, unseen, standalone=length == 1, it=it)
            if now.output != before:
                break
            if action == "stop":
                action = choose(rng, ACTIONS_OF_PLANS)
        commands.append(now)
    return commands


def instruction(rng: Random, commands: Sequence[Command], proper: bool) -> str:
    """Return one instruction with all commands, in its style."""
    single = len(commands) == 1
    text = commands[0].text if single else join(rng, commands, proper)
    return finish(
        rng,
        text,
        proper=proper,
        open_end=commands[-1].open_end,
        standalone=commands[0].standalone,
        imperative=style.is_imperative(text),
        single=single,
        copied=tuple(text for one in commands for text in one.copied),
    )


def join(rng: Random, commands: Sequence[Command], proper: bool) -> str:
    """Return one text of several commands."""
    first = commands[0].text
    if len(commands) == 2 and not any(c.open_end for c in commands) and rng.random() < 0.1:
        text = reorder(rng, first, commands[1].text)
        if text:
            return text
    counted = rng.random() < 0.16
    text = ("first " if rng.random() < 0.6 else "first, ") + first if counted else first
    always = choose(rng, THEN) if rng.random() < 0.5 else ""
    for i, after in enumerate(commands[1:], 1):
        if commands[i - 1].open_end:
            joint = choose(rng, AFTER_SPEECH)
        elif i == len(commands) - 1 and len(commands) > 2 and rng.random() < 0.45:
            joint = choose(rng, LAST)
        elif counted and i == 1:
            joint = choose(rng, AFTER_FIRST)
        else:
            joint = always or choose(rng, THEN)
        text = append(text, joint, after, proper)
    return text


def append(text: str, joint: str, after: Command, proper: bool) -> str:
    """Return a text with one more command; a proper text has a capital after a full stop."""
    if not (proper and joint.startswith(". ")):
        return text + joint + after.text
    adverb = joint[2:]
    return f"{text}. {style.capitalize(adverb + after.text, () if adverb else after.copied)}"


def reorder(rng: Random, first: str, second: str) -> str:
    """Return a sentence that states the order of two commands with "before" or "after".

    Where the verbs do not allow it the sentence is empty.
    """
    kind = rng.random()
    doing_first, doing_second = style.gerund(first), style.gerund(second)
    if kind < 0.3 and doing_second:
        return f"before {doing_second}, {first}"
    if kind < 0.5 and doing_second:
        return f"{first} before {doing_second}"
    if kind < 0.75 and doing_first:
        return f"after {doing_first}, {second}"
    if kind < 0.9 and doing_first:
        return f"{second} after {doing_first}"
    if doing_first:
        return f"start by {doing_first}, then {second}"
    return ""


def finish(
    rng: Random,
    text: str,
    *,
    proper: bool,
    open_end: bool,
    standalone: bool,
    imperative: bool,
    single: bool = True,
    copied: tuple[str, ...] = (),
) -> str:
    """Return an instruction with politeness, typing slips, capitals and punctuation.

    Args:
        rng: the source of every choice.
        text: the instruction.
        proper: it has capitals and punctuation.
        open_end: it ends in unquoted speech.
        standalone: it is a sentence of its own, which takes no "please".
        imperative: "could you" may precede it.
        single: it holds one command.
        copied: what must reach the answer letter by letter.
    """
    question = False
    if rng.random() < 0.45:
        text, question = style.make_polite(rng, text, standalone, imperative, single)
    if not open_end and not question and rng.random() < 0.09:
        text += choose(rng, style.THANKS)
    if rng.random() < SLIPS:
        text = style.add_slips(rng, text, copied)
    if proper:
        text = style.capitalize(text, copied)
    text = style.punctuate(rng, text, question, proper, open_end)
    return text.upper() if not copied and rng.random() < 0.03 else text
