"""Requests that the robot cannot carry out, and texts that are no instruction: the answer has no commands.

Many of these begin like a command (pick a number, stop by the shop, turn on the lights), so the first
word decides nothing.
"""

from random import Random
from typing import NamedTuple

from . import quantities
from .commands import TABLES, correct_articles
from .phrasings import REQUESTS
from .style import is_imperative
from .templates import choose, hold_out, parse, render, split_words
from .vocabulary import invent_word, object_phrase

CITIES = split_words(
    "paris london berlin rome tokyo madrid mars jupiter space heaven america africa china "
    "canada norway school work hollywood brazil india egypt antarctica texas"
)
ELSEWHERE = split_words("""
moon|supermarket|airport|beach|cinema|hospital|library|park|post office|gas station
train station|museum|gym|bakery|pharmacy|mall|zoo|church|north pole|pub|restaurant|school
bank|swimming pool|harbour|castle|forest|mountains|desert|garden|attic|basement|balcony
roof|dining room|laundry room|guest room|cellar|terrace|pool|barn|stable|playground|stars
sun|city|village|farm|island|town hall|bus stop|hotel|market|toy shop|football stadium
lake|river|street
""")
KEYBOARD_NOISE = split_words("asdf qwer sdfg jkl hjkl zxcv fghj dfg wert uiop lkj poiu aaa xxx bla blah")

DIVISIONS = hold_out(REQUESTS)
# held out -> topic -> parsed templates
PARSED = {
    held_out: {
        topic: tuple(parse(t) for t in (division.held_out if held_out else division.train))
        for topic, division in DIVISIONS.items()
    }
    for held_out in (False, True)
}
TOPICS = split_words("near near near chores chores media media questions questions chat far")
IMPOSSIBLE_ACTIONS = ("move", "move", "turn", "wait", "goto", "goto")


class Request(NamedTuple):
    """A request out of scope."""

    text: str
    standalone: bool  # a sentence of its own, which takes no "please"
    imperative: bool  # "could you" may precede it


class RequestSlots:
    """Slots of a request, each drawn when it is asked for."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def __getitem__(self, slot: str) -> str:
        rng = self.rng
        if slot == "obj":
            return object_phrase(rng, unseen=False)[0]
        if slot == "word":
            return invent_word(rng, unseen=False)
        if slot == "spot":
            return choose(rng, ELSEWHERE)
        if slot == "city":
            return choose(rng, CITIES)
        number = 1 + int(rng.random() * (20 if rng.random() < 0.6 else 300))
        return str(number) if rng.random() < 0.65 else quantities.spelled(rng, number)


def request(rng: Random, held_out: bool) -> Request:
    """Draw a request, of held-out templates or of those for training."""
    kind = rng.random()
    if kind < 0.3:
        text = impossible_command(rng, held_out)
        return Request(text, standalone=False, imperative=is_imperative(text))
    if kind < 0.4 and not held_out:
        return Request(gibberish(rng), standalone=True, imperative=False)
    templates = PARSED[held_out]
    topic = choose(rng, [topic for topic in TOPICS if templates[topic]])
    text = render(choose(rng, templates[topic]), RequestSlots(rng), rng)
    text = " ".join(text.split())  # an empty option leaves two blanks
    standalone = topic in ("chat", "questions") or text == "say"
    return Request(text, standalone, imperative=not standalone)


def impossible_command(rng: Random, held_out: bool) -> str:
    """Draw a command that the robot knows, with a quantity or a place that it does not."""
    action = choose(rng, IMPOSSIBLE_ACTIONS)
    table = TABLES["held out" if held_out else "train", False]
    if action == "move":
        variant = choose(rng, table.variants["move"])
    else:
        variant = {"turn": "any", "wait": "time", "goto": "place"}[action]
    forward = variant == "forward" or (variant == "any" and rng.random() < 0.6)
    slots = {
        "way": "forward" if forward else "backward",
        "dir": "forward" if forward else choose(rng, ("back", "backward", "backwards")),
        "side": choose(rng, ("left", "right")),
        "clock": choose(rng, ("clockwise", "counterclockwise")),
    }
    if action == "move":
        slots["dist"] = quantities.too_far(rng)
    elif action == "turn":
        slots["angle"], slots["bend"], _ = quantities.too_wide(rng)
    elif action == "wait":
        slots["time"] = quantities.too_long(rng)
    elif rng.random() < 0.85:
        slots["place"] = choose(rng, ELSEWHERE)
    else:
        slots["place"] = invent_word(rng, unseen=False)
    return correct_articles(render(choose(rng, table.phrases[action, variant]).parts, slots, rng))


def gibberish(rng: Random) -> str:
    """Draw one to four words without meaning."""
    return " ".join([meaningless_word(rng) for _ in range(1 + int(rng.random() * 4))])


def meaningless_word(rng: Random) -> str:
    """Draw letters typed at random, or an invented word."""
    return choose(rng, KEYBOARD_NOISE) if rng.random() < 0.3 else invent_word(rng, unseen=False)
