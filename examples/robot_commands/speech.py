"""Texts that the robot is asked to say: everyday sentences with real and invented words.

A fact follows "tell everyone that"; any text follows "say"; in quotes there may be capitals, punctuation
and even words that look like commands, all to be repeated letter by letter.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from .phrasings import SPEECH
from .templates import Part, choose, parse, render, split_words
from .vocabulary import OBJECTS, invent_word

LONGEST = 60  # characters that the robot says
QUOTED = LONGEST - 12  # leaves room for a greeting and punctuation

Grammar = Sequence[Sequence[Part]]

FACTS, GREETINGS, COMMAND_LIKE, QUESTIONS = (
    [parse(template) for template in SPEECH[name]]
    for name in ("facts", "greetings", "command_like", "questions")
)
TIMES = (
    *[f"{hour} o'clock" for hour in split_words("one two three five six seven nine ten")],
    *split_words("7 pm|8 am|5 pm|10 am|half past six|half past two|noon|midnight"),
)
FILLINGS = {
    "adjective": split_words(
        "red blue green yellow big small old new happy funny strange nice clever brave quick slow "
        "wooden shiny"
    ),
    "clock": TIMES,
    "count": split_words(
        "two three four five six seven eight ten twelve fifteen twenty 2 3 5 10 15 20 30 45 50"
    ),
    "degrees": split_words("30|45|60|90|120|180|270|thirty|forty five|ninety"),
}


class Speech(NamedTuple):
    """Text that the robot is to say, and its form in the prompt."""

    text: str
    written: str


class SpeechSlots:
    """Slots of a sentence, each drawn when it is asked for, so that {word} {word} are two words."""

    def __init__(self, rng: Random, unseen: bool) -> None:
        self.rng, self.unseen = rng, unseen

    def __getitem__(self, slot: str) -> str:
        rng = self.rng
        if slot == "noun" and rng.random() < 0.75:
            return choose(rng, OBJECTS[self.unseen])[0]
        if slot in ("noun", "word"):
            return invent_word(rng, self.unseen)
        if slot in FILLINGS:
            return choose(rng, FILLINGS[slot])
        code = int(rng.random() * 9000) + 1000 if rng.random() < 0.5 else int(rng.random() * 990) + 10
        return str(code)


def sentence(rng: Random, grammar: Grammar, unseen: bool, longest: int = LONGEST) -> str:
    """Draw a sentence of a grammar, of at most `longest` characters."""
    slots = SpeechSlots(rng, unseen)
    while True:
        text = render(choose(rng, grammar), slots, rng)
        if len(text) <= longest:
            return text


def fact(rng: Random, unseen: bool) -> Speech:
    """Draw a statement."""
    text = sentence(rng, FACTS, unseen)
    return Speech(text, text)


def unquoted(rng: Random, unseen: bool) -> Speech:
    """Draw a statement or a greeting."""
    text = sentence(rng, FACTS if rng.random() < 0.4 else GREETINGS, unseen)
    return Speech(text, text)


def quoted(rng: Random, unseen: bool) -> Speech:
    """Draw any text, which the prompt writes in quotes."""
    kind = rng.random()
    grammar = FACTS if kind < 0.4 else GREETINGS if kind < 0.78 else QUESTIONS if kind < 0.9 else COMMAND_LIKE
    text = sentence(rng, grammar, unseen, QUOTED)
    if rng.random() < 0.12 and grammar is not QUESTIONS:
        greeting = choose(rng, ("hello", "hi", "attention", "sorry", "excuse me", "okay", "hey"))
        text = f"{greeting}, {text}"
    if rng.random() < 0.45:
        text = text[0].upper() + text[1:]
    if grammar is QUESTIONS:
        text += "?" if rng.random() < 0.7 else ""
    elif rng.random() < 0.35:
        text += choose(rng, (".", ".", "!"))
    quote = '"' if "'" in text or rng.random() < 0.6 else "'"
    return Speech(text, f"{quote}{text}{quote}")
