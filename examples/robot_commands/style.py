"""The finish of a prompt: politeness, capitals, punctuation, slips of the finger."""

from random import Random
from typing import Any

from .choose import listed, pick
from .vocabulary import TAKEN

CALLS = (
    "hey robot, ",
    "hey rover, ",
    "rover, ",
    "robot, ",
    "ok robot, ",
    "ok rover, ",
    "okay, ",
    "hi rover, ",
    "hello robot, ",
    "rover: ",
    "hey, ",
    "alright, ",
    "so, ",
    "now ",
    "ok, ",
    "listen, ",
    "good robot, ",
    "rover ",
    "robot ",
    "hey robot ",
)
PLEAS = ("please ", "please ", "please ", "kindly ", "just ", "please just ")
ASKING = (
    "could you ",
    "can you ",
    "would you ",
    "will you ",
    "could you please ",
    "can you please ",
    "would you please ",
    "could you kindly ",
)
WISHES = (
    "i'd like you to ",
    "i want you to ",
    "i need you to ",
    "i would like you to ",
    "you should ",
    "you need to ",
    "let's see you ",
    "be so kind as to ",
    "your task is to ",
    "your job is to ",
    "time to ",
    "it's time to ",
    "i command you to ",
)
MINDING = ("would you mind ", "do you mind ", "how about ")
THANKS = (
    " please",
    ", please",
    " please",
    ", thanks",
    ", thank you",
    " thanks",
    " thank you",
    ", cheers",
    ", will you",
    ", would you",
    ", rover",
    ", robot",
)

IRREGULAR = {
    "get": "getting",
    "put": "putting",
    "set": "setting",
    "stop": "stopping",
    "grip": "gripping",
    "cut": "cutting",
    "hit": "hitting",
    "quit": "quitting",
    "let": "letting",
    "spin": "spinning",
    "swivel": "swivelling",
    "grab": "grabbing",
    "step": "stepping",
    "drop": "dropping",
    "spot": "spotting",
    "scan": "scanning",
    "begin": "beginning",
    "tag": "tagging",
    "run": "running",
    "goto": "",
    "be": "",
    "do": "doing",
    "go": "going",
    "see": "seeing",
    "free": "freeing",
    "let's": "",
    "try": "trying",
    "don't": "",
    "snatch": "snatching",
    "tell": "telling",
}
REGULAR = listed(
    "move drive roll head travel scoot proceed keep continue start cover take make perform set "
    "shift inch advance push carry come back reverse retreat turn rotate pivot face change "
    "adjust twist swing visit enter reach bring return pay meet join wait navigate walk park "
    "find locate look search seek track hunt help have check work show detect discover pick "
    "lift collect fetch grasp use close seize gather scoop hoist raise place leave lay deposit "
    "rest position release stick balance lower ease slide follow stay say speak announce shout "
    "call read repeat pronounce whisper inform remind warn pause hold stand remain idle sleep "
    "give allow delay count halt freeze cease brake"
)


def ing(verb: str) -> str:
    """move -> moving"""
    if verb in IRREGULAR:
        return IRREGULAR[verb]
    return (verb[:-1] if verb.endswith("e") and not verb.endswith("ee") else verb) + "ing"


GERUND = {verb: ing(verb) for verb in (*REGULAR, *IRREGULAR)}
MANNER = ("carefully", "gently")  # carefully put the mug down: an imperative with its adverb first


def is_imperative(text: str) -> bool:
    """Whether "could you" may go before it."""
    first, _, _ = text.partition(" ")
    return first in GERUND or first in MANNER or first in ("say:", "goto", "be", "u-turn,")


def gerund(text: str) -> str:
    """ "go to the kitchen" -> "going to the kitchen"; "" where that does not work."""
    first, blank, rest = text.partition(" ")
    if not GERUND.get(first) or rest.partition(" ")[0].endswith("ing"):
        return ""
    return GERUND[first] + blank + rest


def polite(rng: Random, text: str, alone: bool, imperative: bool, single: bool) -> tuple[Any, ...]:
    """(text, is it a question)

    alone: no "please" before it; imperative: "could you" may go before it; single: no plan.
    """
    kind = rng.random()
    call = pick(rng, CALLS) if rng.random() < 0.16 else ""
    if alone or kind < 0.52 or text.startswith("first"):
        return call + text, False
    if kind < 0.74 or not imperative:
        return call + pick(rng, PLEAS) + text, False
    if kind < 0.9:
        return call + pick(rng, ASKING) + text, True
    if kind < 0.97 or not single:
        return call + pick(rng, WISHES) + text, False
    doing = gerund(text)
    return call + (pick(rng, MINDING) + doing if doing else text), bool(doing)


# Words that may suffer a slip: never numbers, units, directions, nor anything short.
SLIPPERY = frozenset(
    listed(
        "please could would kindly robot rover thanks thank then after next finally once first "
        "before move drive roll travel scoot proceed advance reverse continue keep going moving "
        "cover turn rotate spin pivot swivel make take around navigate walk head kitchen bedroom "
        "bathroom office hallway garage living charging find locate look search seek track hunt "
        "where grab pick lift collect fetch grasp place leave drop gripper carefully gently onto "
        "follow person behind stay start tell announce everyone everybody shout whisper repeat wait "
        "pause hold still stand stop halt freeze immediately motors want need like with your "
        "yourself distance heading exactly another further until help seen anywhere looking "
        "searching done that's"
    )
)
NEIGHBOURS = {
    a: b
    for row in ("qwertyuiop", "asdfghjkl", "zxcvbnm")
    for a, b in zip(row, row[1:] + row[-2], strict=True)
}


def slip(rng: Random, word: str) -> str:
    """The word with one letter dropped, doubled, swapped or replaced by its neighbour on the keyboard."""
    at = 1 + int(rng.random() * (len(word) - 2))
    kind = rng.random()
    if kind < 0.3:
        return word[:at] + word[at + 1 :]
    if kind < 0.5:
        return word[:at] + word[at] + word[at:]
    if kind < 0.8:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word[:at] + NEIGHBOURS.get(word[at], word[at]) + word[at + 1 :]


def slips(rng: Random, text: str, copied: tuple[Any, ...]) -> str:
    """One or two slips in words that are not copied into the answer."""
    kept = set(" ".join(copied).split())
    words = text.split(" ")
    open_to = [i for i, word in enumerate(words) if word in SLIPPERY and word not in kept]
    for _ in range(1 if rng.random() < 0.75 else 2):
        if open_to:
            i = open_to.pop(int(rng.random() * len(open_to)))
            slipped = slip(rng, words[i])
            words[i] = words[i] if slipped in TAKEN else slipped
    return " ".join(words)


def capital(text: str, copied: tuple[Any, ...] = ()) -> str:
    """A capital at the start, unless that letter belongs to something copied."""
    return text if any(text.startswith(c) for c in copied) else text[0].upper() + text[1:]


def closing(rng: Random, text: str, question: bool, proper: bool, bare: bool) -> str:
    """Final punctuation; after unquoted speech only a full stop, which is not spoken."""
    if bare:
        return text + "." if proper and rng.random() < 0.5 else text
    if question:
        return text + "?" if rng.random() < (0.85 if proper else 0.35) else text
    kind = rng.random()
    if proper:
        return text + "." if kind < 0.65 else text + "!" if kind < 0.73 else text
    return text + "." if kind < 0.12 else text + "!" if kind < 0.15 else text
