"""What the robot cannot do, and what is no instruction at all: the answer is {"commands":[]}.

Many of these begin like a command (pick a number, stop by the shop, turn on the lights): the first word
decides nothing.
"""

from random import Random
from typing import Any

from . import quantities as numbers, vocabulary as objects
from .choose import listed, pick
from .commands import PHRASES, tidy
from .phrasings.requests import REQUESTS
from .style import is_imperative
from .templates import lines, parse, render, split

CITIES = listed(
    "paris london berlin rome tokyo madrid mars jupiter space heaven america africa china "
    "canada norway school work hollywood brazil india egypt antarctica texas"
)
PLACES = """
moon|supermarket|airport|beach|cinema|hospital|library|park|post office|gas station
train station|museum|gym|bakery|pharmacy|mall|zoo|church|north pole|pub|restaurant|school
bank|swimming pool|harbour|castle|forest|mountains|desert|garden|attic|basement|balcony
roof|dining room|laundry room|guest room|cellar|terrace|pool|barn|stable|playground|stars
sun|city|village|farm|island|town hall|bus stop|hotel|market|toy shop|football stadium
lake|river|street
"""
ELSEWHERE = tuple(place for line in lines(PLACES) for place in line.split("|"))
PAIRS = split(REQUESTS)
PARSED = {
    held: {name: tuple(parse(t) for t in pair[held]) for name, pair in PAIRS.items() if pair[held]}
    for held in (False, True)
}
SMASH = (
    "asdf",
    "qwer",
    "sdfg",
    "jkl",
    "hjkl",
    "zxcv",
    "fghj",
    "dfg",
    "wert",
    "uiop",
    "lkj",
    "poiu",
    "aaa",
    "xxx",
    "bla",
    "blah",
)


class Fillers:
    """Looks like a dict to render(): each slot is drawn when it is asked for."""

    def __init__(self, rng: Random):
        self.rng = rng

    def __getitem__(self, slot: str) -> str:
        rng = self.rng
        if slot == "obj":
            return str(objects.thing(rng, False)[0])
        if slot == "word":
            return objects.invent(rng, False)
        if slot == "spot":
            return pick(rng, ELSEWHERE)
        if slot == "city":
            return pick(rng, CITIES)
        value = 1 + int(rng.random() * (20 if rng.random() < 0.6 else 300))
        return str(value) if rng.random() < 0.65 else numbers.words_for(rng, value)


def impossible(rng: Random, held: bool) -> str:
    """A command the robot knows, with a quantity or a place it does not."""
    action = pick(rng, ("move", "move", "turn", "wait", "goto", "goto"))
    table = PHRASES["held out" if held else "train", False]
    variant = {"turn": "any", "wait": "time", "goto": "place"}.get(action) or pick(rng, table["move"])
    forward = variant == "forward" or (variant == "any" and rng.random() < 0.6)
    slots = {
        "way": "forward" if forward else "backward",
        "dir": "forward" if forward else pick(rng, ("back", "backward", "backwards")),
        "side": pick(rng, ("left", "right")),
        "clock": pick(rng, ("clockwise", "counterclockwise")),
    }
    if action == "move":
        slots["dist"] = numbers.too_far(rng)
    elif action == "turn":
        slots["angle"], slots["bend"], _ = numbers.too_wide(rng)
    elif action == "wait":
        slots["time"] = numbers.too_long(rng)
    else:
        slots["place"] = pick(rng, ELSEWHERE) if rng.random() < 0.85 else objects.invent(rng, False)
    return tidy(render(pick(rng, table[action, variant]).parts, slots, rng))


def gibberish(rng: Random) -> str:
    """Nothing that means anything."""

    def word() -> str:
        return pick(rng, SMASH) if rng.random() < 0.3 else objects.invent(rng, False)

    return " ".join([word() for _ in range(1 + int(rng.random() * 4))])


def request(rng: Random, held: bool) -> tuple[Any, ...]:
    """(text, does it stand alone, is it an imperative)"""
    kind = rng.random()
    if kind < 0.3:
        text = impossible(rng, held)
        return text, False, is_imperative(text)
    if kind < 0.4 and not held:
        return gibberish(rng), True, False
    table = PARSED[held]
    weights = (
        "near",
        "near",
        "near",
        "chores",
        "chores",
        "media",
        "media",
        "questions",
        "questions",
        "chat",
        "far",
    )
    name = pick(rng, [w for w in weights if w in table])
    # An empty option leaves two blanks behind.
    text = " ".join(render(pick(rng, table[name]), Fillers(rng), rng).split())
    alone = name in ("chat", "questions") or text == "say"
    return text, alone, not alone
