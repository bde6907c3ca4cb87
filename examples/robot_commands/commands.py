"""One command: what the person says and what the robot is told."""

import re
from random import Random
from typing import Any, NamedTuple

from . import quantities as numbers, speech as sentences, vocabulary as objects
from .choose import pick, spread
from .phrasings import PHRASINGS
from .templates import parse, render, split

TEMPLATES = {action: split(variants) for action, variants in PHRASINGS.items()}

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
PLANNED = spread(WEIGHTS | {"stop": 2, "follow": 2})
ACTIONS = spread(WEIGHTS)
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
SPOKEN = {"quoted": sentences.quote, "text": sentences.text, "fact": sentences.fact}
ROOMS = ("kitchen", "living room", "bedroom", "bathroom", "office", "hallway", "garage", "charging dock")
ALSO = {
    "charging dock": ("charging dock", "charging dock", "charging station", "dock", "charger"),
    "hallway": ("hallway", "hallway", "corridor"),
}


class Phrase(NamedTuple):
    """A template, ready to render."""

    parts: list[Any]
    alone: bool  # a sentence of its own, no imperative
    variant: str


class Command(NamedTuple):
    """What is said, and what it means."""

    text: str
    told: dict[str, Any]
    alone: bool = False
    copied: tuple[Any, ...] = ()  # what must reach the answer letter by letter
    bare: bool = False  # ends in unquoted text, so that whatever follows would be taken for more of it
    thing: str = ""  # what "it" would mean afterwards


PLAIN = 10  # templates of a variant that count as plain, the shortest ones


def tables(phrasings: str, alone: bool) -> dict[Any, Any]:
    """action -> variants by weight, and (action, variant) -> phrases; phrasings: train, plain, held out."""
    found: dict[Any, Any] = {}
    for action, variants in TEMPLATES.items():
        usable = {}
        for variant, halves in variants.items():
            half = halves[phrasings == "held out"]
            kept = [t for t in half if alone or not t.startswith("?")]
            if phrasings == "plain":
                kept = sorted(set(kept), key=lambda t: (len(t), t))[:PLAIN]
            found[action, variant] = tuple(Phrase(parse(t), t.startswith("?"), variant) for t in kept)
            if kept and variant in VARIANTS[action]:
                usable[variant] = VARIANTS[action][variant]
        found[action] = spread(usable)
    return found


PHRASES = {
    (phrasings, alone): tables(phrasings, alone)
    for phrasings in ("train", "plain", "held out")
    for alone in (False, True)
}


DOUBLE_ARTICLE = re.compile(r"\b(a|another|further|next) an? (?=[a-z])")
BEFORE_VOWEL = re.compile(r"\ba (?=8|eight|eleven|11 |18 )")


def tidy(text: str) -> str:
    """ "another a metre" -> "another metre", "a eighty degree turn" -> "an eighty degree turn"."""
    return BEFORE_VOWEL.sub("an ", DOUBLE_ARTICLE.sub(r"\1 ", text))


def place_name(rng: Random, place: str) -> str:
    """A name that people use for the place."""
    return pick(rng, ALSO[place]) if place in ALSO else place


def command(rng: Random, action: str, phrasings: str, unseen: bool, alone: bool, it: str = "") -> Command:
    """One command of an action.

    phrasings: train, plain or held out; unseen: with held-out words; alone: whole sentences are allowed;
    it: the thing already named.
    """
    table = PHRASES[phrasings, alone]
    variant = "it" if it and table[action, "it"] else pick(rng, table[action])
    phrase = pick(rng, table[action, variant])
    slots: dict[str, str] = {}
    told: dict[str, Any] = {"action": action}
    copied: tuple[str, ...] = ()
    bare, thing = False, ""

    if action == "move":
        forward = rng.random() < 0.6 if variant == "any" else variant == "forward"
        slots["way"] = "forward" if forward else "backward"
        slots["dir"] = pick(rng, FORWARD if forward else BACKWARD)
        slots["dist"], far = numbers.distance(rng)
        told.update(direction=slots["way"], distance_m=far)
    elif action == "turn":
        side = "left" if variant.endswith("left") or rng.random() < 0.5 else "right"
        slots["side"], slots["clock"] = side, pick(rng, CLOCK[side])
        if variant == "any":
            slots["angle"], slots["bend"], degrees = numbers.angle(rng)
        else:
            degrees = int(variant.split()[0])
        told.update(direction=side, angle_deg=degrees)
    elif action == "goto":
        place = "charging dock" if variant == "dock" else pick(rng, ROOMS)
        slots["place"] = place_name(rng, place)
        told["place"] = place
    elif action == "follow":
        told["target"] = variant
    elif action == "wait":
        slots["time"], told["seconds"] = numbers.seconds(rng)
    elif action == "say":
        said, shown = SPOKEN[variant](rng, unseen)
        slots = {"quote": shown, "text": shown, "fact": shown}
        told["text"], copied, bare = said, (said,), variant != "quoted"
    elif action != "stop":
        if variant == "it":
            thing = it
        else:
            slots["obj"], thing = objects.thing(rng, unseen)
            copied = (thing,)
        told["object"] = thing
        if action == "place":
            while True:
                slots["top"], top = objects.surface(rng, unseen)
                if top != thing:
                    break
            told["on"] = top
            copied += (top,)

    text = render(phrase.parts, slots, rng)
    if action in ("move", "turn", "wait"):
        text = tidy(text)
    return Command(text, told, phrase.alone, copied, bare, thing)
