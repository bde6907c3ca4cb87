"""How people say it: the templates of every action, as data.

action -> variant -> templates. A variant is what the words alone decide (a direction, an angle, a
pronoun). `{go}` is one of SYNONYMS, `[a|b]` one of its options, any other `{slot}` is filled by
commands.py. A leading `?` marks a sentence that stands alone: not an imperative, so no "could you"
before it and no plan around it.
"""

from .company import FOLLOW, GOTO, SAY
from .driving import MOVE, STOP, TURN, WAIT
from .handling import FIND, PICK, PLACE

SYNONYMS = {
    "go": ("go", "go", "move", "drive", "roll", "head", "travel", "scoot", "proceed"),
    "spin": ("turn", "turn", "turn", "rotate", "spin", "pivot", "swivel"),
    "visit": ("go", "go", "drive", "head", "move", "travel", "navigate", "roll", "walk"),
    "seek": (
        "find",
        "find",
        "locate",
        "look for",
        "search for",
        "seek out",
        "spot",
        "track down",
        "hunt for",
    ),
    "grab": ("grab", "pick up", "pick up", "take", "lift", "get", "collect", "fetch", "grasp"),
    "take": ("grab", "grab", "take", "lift", "get", "collect", "fetch", "grasp"),
    "lay": ("put", "put", "place", "set", "leave", "drop", "lay"),
    "put": ("put", "put", "place", "set", "leave", "drop", "lay", "set down", "put down"),
    "on": ("on", "on", "onto", "on top of"),
    "wait": ("wait", "wait", "pause", "hold", "stay still", "hold still", "stand by"),
    "people": (
        "everyone",
        "everybody",
        "the family",
        "the kids",
        "them",
        "people",
        "the guests",
        "all of them",
    ),
}

PHRASINGS = {
    "move": MOVE,
    "turn": TURN,
    "goto": GOTO,
    "find": FIND,
    "pick": PICK,
    "place": PLACE,
    "follow": FOLLOW,
    "say": SAY,
    "wait": WAIT,
    "stop": STOP,
}
