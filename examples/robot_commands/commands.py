"""One command: what a person says, and what the model is to output for it."""

import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Literal, NamedTuple

from . import quantities, speech, vocabulary
from .phrasings import PHRASINGS
from .templates import Part, by_weight, choose, hold_out, parse, render

Output = dict[str, str | int | float]  # one command as JSON
Phrasings = Literal["train", "plain", "held out"]

TEMPLATES = {action: hold_out(variants) for action, variants in PHRASINGS.items()}
PLAIN = 10  # templates of a variant that count as plain, the shortest ones

WEIGHTS = {
    "move": 18,
    "turn": 16,
    "goto": 12,
    "find": 13,
    "pick": 12,
    "place": 13,
    "follow": 4,
    "say": 12,
    "wait": 8,
    "stop": 4,
}
ACTIONS = by_weight(WEIGHTS)
ACTIONS_OF_PLANS = by_weight(WEIGHTS | {"stop": 2, "follow": 2})
OBJECT_ACTIONS = ("find", "pick", "place")
VARIANTS = {
    "move": {"any": 6, "forward": 2, "backward": 2},
    "turn": {"any": 30, "90": 5, "180": 2, "270": 1, "360": 1, "180 left": 2, "360 left": 1},
    "goto": {"place": 8, "dock": 1},
    "find": {"object": 1},
    "pick": {"object": 1},
    "place": {"object": 1},
    "follow": {"me": 3, "person": 2},
    "say": {"quoted": 5, "text": 3, "fact": 4},
    "wait": {"time": 1},
    "stop": {"stop": 1},
}

FORWARD = ("forward", "forward", "forward", "forwards", "ahead", "straight ahead", "onward")
BACKWARD = ("backward", "backward", "backwards", "back", "back", "in reverse")
CLOCK = {
    "left": ("counterclockwise", "counterclockwise", "anticlockwise", "counter-clockwise", "anti-clockwise"),
    "right": ("clockwise",),
}
SPEECH = {"quoted": speech.quoted, "text": speech.unquoted, "fact": speech.fact}
ROOMS = ("kitchen", "living room", "bedroom", "bathroom", "office", "hallway", "garage", "charging dock")
SYNONYMS_OF_ROOMS = {
    "charging dock": ("charging dock", "charging dock", "charging station", "dock", "charger"),
    "hallway": ("hallway", "hallway", "corridor"),
}


class Phrase(NamedTuple):
    """A template, ready to render."""

    parts: list[Part]
    standalone: bool  # a sentence of its own, no imperative


class Table(NamedTuple):
    """The phrases that may be drawn."""

    variants: dict[str, tuple[str, ...]]  # action -> its variants, by weight
    phrases: dict[tuple[str, str], tuple[Phrase, ...]]  # action, variant -> its phrases


class Filling(NamedTuple):
    """Values that turn a template into a command."""

    slots: dict[str, str]
    output: Output  # without the action
    copied: tuple[str, ...] = ()


class Command(NamedTuple):
    """A command in words and as JSON."""

    text: str
    output: Output
    standalone: bool  # a sentence of its own, no imperative
    copied: tuple[str, ...]  # what must reach the answer letter by letter
    open_end: bool  # ends in unquoted speech, so that anything that follows would be more of it


def make_table(phrasings: Phrasings, standalone: bool) -> Table:
    """Return the phrases of every action; `standalone` allows sentences of their own."""
    table = Table({}, {})
    for action, variants in TEMPLATES.items():
        weights = {}
        for variant, division in variants.items():
            templates = division.held_out if phrasings == "held out" else division.train
            kept = [t for t in templates if standalone or not t.startswith("?")]
            if phrasings == "plain":
                kept = sorted(set(kept), key=lambda t: (len(t), t))[:PLAIN]
            table.phrases[action, variant] = tuple(Phrase(parse(t), t.startswith("?")) for t in kept)
            if kept and variant in VARIANTS[action]:
                weights[variant] = VARIANTS[action][variant]
        table.variants[action] = by_weight(weights)
    return table


EVERY_PHRASINGS: tuple[Phrasings, ...] = ("train", "plain", "held out")
TABLES = {
    (phrasings, standalone): make_table(phrasings, standalone)
    for phrasings in EVERY_PHRASINGS
    for standalone in (False, True)
}

DOUBLE_ARTICLE = re.compile(r"\b(a|another|further|next) an? (?=[a-z])")
BEFORE_VOWEL = re.compile(r"\ba (?=8|eight|eleven|11 |18 )")


def correct_articles(text: str) -> str:
    """Return "another metre" for "another a metre", "an eighty degree turn" for "a eighty degree turn"."""
    return BEFORE_VOWEL.sub("an ", DOUBLE_ARTICLE.sub(r"\1 ", text))


def command(
    rng: Random, action: str, phrasings: Phrasings, unseen: bool, standalone: bool, it: str = ""
) -> Command:
    """Draw one command of an action.

    Args:
        rng: the source of every choice.
        action: its name.
        phrasings: which templates to draw from.
        unseen: held-out nouns and invented words in place of those of training.
        standalone: whole sentences are allowed.
        it: the object that "it" means, where one was named before.
    """
    table = TABLES[phrasings, standalone]
    if it and table.phrases[action, "it"]:
        variant = "it"
    else:
        variant, it = choose(rng, table.variants[action]), ""
    phrase = choose(rng, table.phrases[action, variant])
    if action in OBJECT_ACTIONS:
        filling = fill_object(rng, action, unseen, it)
    elif action == "say":
        filling = fill_say(rng, variant, unseen)
    else:
        filling = FILLINGS[action](rng, variant)
    text = render(phrase.parts, filling.slots, rng)
    if action in ("move", "turn", "wait"):
        text = correct_articles(text)
    output: Output = {"action": action, **filling.output}
    open_end = action == "say" and variant != "quoted"
    return Command(text, output, phrase.standalone, filling.copied, open_end)


def fill_move(rng: Random, variant: str) -> Filling:
    """Draw a direction, unless the variant decides it, and a distance."""
    forward = rng.random() < 0.6 if variant == "any" else variant == "forward"
    way = "forward" if forward else "backward"
    direction = choose(rng, FORWARD if forward else BACKWARD)
    distance = quantities.distance(rng)
    slots = {"way": way, "dir": direction, "dist": distance.text}
    return Filling(slots, {"direction": way, "distance_m": distance.value})


def fill_turn(rng: Random, variant: str) -> Filling:
    """Draw a side and an angle, unless the variant decides them."""
    side = "left" if variant.endswith("left") or rng.random() < 0.5 else "right"
    slots = {"side": side, "clock": choose(rng, CLOCK[side])}
    if variant == "any":
        slots["angle"], slots["bend"], degrees = quantities.angle(rng)
    else:
        degrees = int(variant.split()[0])
    return Filling(slots, {"direction": side, "angle_deg": degrees})


def fill_goto(rng: Random, variant: str) -> Filling:
    """Draw a place, and a name that people use for it."""
    place = "charging dock" if variant == "dock" else choose(rng, ROOMS)
    name = choose(rng, SYNONYMS_OF_ROOMS[place]) if place in SYNONYMS_OF_ROOMS else place
    return Filling({"place": name}, {"place": place})


def fill_follow(rng: Random, variant: str) -> Filling:
    """Return the target, which the variant decides."""
    return Filling({}, {"target": variant})


def fill_wait(rng: Random, variant: str) -> Filling:
    """Draw a time."""
    time = quantities.seconds(rng)
    return Filling({"time": time.text}, {"seconds": time.value})


def fill_stop(rng: Random, variant: str) -> Filling:
    """Return nothing to fill in."""
    return Filling({}, {})


def fill_say(rng: Random, variant: str, unseen: bool) -> Filling:
    """Draw a text to say."""
    said = SPEECH[variant](rng, unseen)
    slots = {"quote": said.written, "text": said.written, "fact": said.written}
    return Filling(slots, {"text": said.text}, (said.text,))


def fill_object(rng: Random, action: str, unseen: bool, it: str) -> Filling:
    """Draw an object, unless `it` is one, and for `place` a surface of another name."""
    slots: dict[str, str] = {}
    copied: tuple[str, ...] = ()
    if not it:
        slots["obj"], it = vocabulary.object_phrase(rng, unseen)
        copied = (it,)
    output: Output = {"object": it}
    if action == "place":
        surface = it
        while surface == it:
            slots["top"], surface = vocabulary.surface_phrase(rng, unseen)
        output["on"] = surface
        copied += (surface,)
    return Filling(slots, output, copied)


FILLINGS: Mapping[str, Callable[[Random, str], Filling]] = {
    "move": fill_move,
    "turn": fill_turn,
    "goto": fill_goto,
    "follow": fill_follow,
    "wait": fill_wait,
    "stop": fill_stop,
}
