"""The style of a prompt: politeness, capitals, punctuation, typing slips."""

from random import Random

from .templates import choose, split_bars, split_words
from .vocabulary import TAKEN

CALLS = split_bars(
    "hey robot, |hey rover, |rover, |robot, |ok robot, |ok rover, |okay, |hi rover, |hello robot, |rover: "
    "|hey, |alright, |so, |now |ok, |listen, |good robot, |rover |robot |hey robot "
)
PLEAS = ("please ", "please ", "please ", "kindly ", "just ", "please just ")
ASKING = split_bars(
    "could you |can you |would you |will you |could you please |can you please |would you please "
    "|could you kindly "
)
WISHES = split_bars(
    "i'd like you to |i want you to |i need you to |i would like you to |you should |you need to "
    "|let's see you |be so kind as to |your task is to |your job is to |time to |it's time to "
    "|i command you to "
)
MINDING = ("would you mind ", "do you mind ", "how about ")
THANKS = split_bars(
    " please|, please| please|, thanks|, thank you| thanks| thank you|, cheers|, will you|, would you|, rover"
    "|, robot"
)

# Verbs that an instruction may begin with, by the way in which they form their gerund.
REGULAR = split_words(
    "move drive roll head travel scoot proceed keep continue start cover take make perform "
    "shift inch advance push carry come back reverse retreat turn rotate pivot face change "
    "adjust twist swing visit enter reach bring return pay meet join wait navigate walk park "
    "find locate look search seek track hunt help have check work show detect discover pick "
    "lift collect fetch grasp use close seize gather scoop hoist raise place leave lay deposit "
    "rest position release stick balance lower ease slide follow stay say speak announce shout "
    "call read repeat pronounce whisper inform remind warn pause hold stand remain idle sleep "
    "give allow delay count halt freeze cease brake do go see free try snatch tell"
)
DOUBLED = split_words(
    "get put set stop grip cut hit quit let spin swivel grab step drop spot scan begin tag run"
)


def gerund_of(verb: str) -> str:
    """Return the gerund of a verb: move -> moving, stop -> stopping."""
    if verb in DOUBLED:
        return verb + verb[-1] + "ing"
    return (verb[:-1] if verb.endswith("e") and not verb.endswith("ee") else verb) + "ing"


GERUNDS = {verb: gerund_of(verb) for verb in (*REGULAR, *DOUBLED)}
# "carefully put the mug down" is an imperative with its adverb first.
IMPERATIVES = {*GERUNDS, "carefully", "gently", "say:", "goto", "be", "let's", "don't", "u-turn,"}


def is_imperative(text: str) -> bool:
    """Return whether "could you" may precede a text."""
    return text.partition(" ")[0] in IMPERATIVES


def gerund(text: str) -> str:
    """Return "going to the kitchen" for "go to the kitchen", or "" where the verb does not allow it."""
    first, blank, rest = text.partition(" ")
    if first not in GERUNDS or rest.partition(" ")[0].endswith("ing"):
        return ""
    return GERUNDS[first] + blank + rest


def make_polite(rng: Random, text: str, standalone: bool, imperative: bool, single: bool) -> tuple[str, bool]:
    """Return a text with an address or a request, and whether it is a question now.

    Args:
        rng: the source of every choice.
        text: an instruction.
        standalone: it is a sentence of its own, which takes no "please".
        imperative: "could you" may precede it.
        single: it holds one command, so that "would you mind" may precede its gerund.
    """
    kind = rng.random()
    call = choose(rng, CALLS) if rng.random() < 0.16 else ""
    if standalone or kind < 0.52 or text.startswith("first"):
        return call + text, False
    if kind < 0.74 or not imperative:
        return call + choose(rng, PLEAS) + text, False
    if kind < 0.9:
        return call + choose(rng, ASKING) + text, True
    if kind < 0.97 or not single:
        return call + choose(rng, WISHES) + text, False
    doing = gerund(text)
    return call + (choose(rng, MINDING) + doing if doing else text), bool(doing)


# Words that may have a typing slip: never numbers, units, directions, nor short words.
SLIPPERY = frozenset(
    split_words(
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


def mistype(rng: Random, word: str) -> str:
    """Return a word with one letter dropped, doubled, swapped or replaced by a neighbouring key."""
    i = 1 + int(rng.random() * (len(word) - 2))
    kind = rng.random()
    if kind < 0.3:
        return word[:i] + word[i + 1 :]
    if kind < 0.5:
        return word[:i] + word[i] + word[i:]
    if kind < 0.8:
        return word[:i] + word[i + 1] + word[i] + word[i + 2 :]
    return word[:i] + NEIGHBOURS.get(word[i], word[i]) + word[i + 1 :]


def add_slips(rng: Random, text: str, copied: tuple[str, ...]) -> str:
    """Return a text with one or two typing slips, in words that are not copied into the answer."""
    kept = set(" ".join(copied).split())
    words = text.split(" ")
    candidates = [i for i, word in enumerate(words) if word in SLIPPERY and word not in kept]
    for _ in range(1 if rng.random() < 0.75 else 2):
        if candidates:
            i = candidates.pop(int(rng.random() * len(candidates)))
            mistyped = mistype(rng, words[i])
            words[i] = words[i] if mistyped in TAKEN else mistyped
    return " ".join(words)


def capitalize(text: str, copied: tuple[str, ...] = ()) -> str:
    """Return a text with a capital first letter, unless that letter is copied into the answer."""
    return text if any(text.startswith(c) for c in copied) else text[0].upper() + text[1:]


def punctuate(rng: Random, text: str, question: bool, proper: bool, open_end: bool) -> str:
    """Return a text with its final punctuation; after unquoted speech only a full stop, which is not said."""
    if open_end:
        return text + "." if proper and rng.random() < 0.5 else text
    if question:
        return text + "?" if rng.random() < (0.85 if proper else 0.35) else text
    kind = rng.random()
    if proper:
        return text + "." if kind < 0.65 else text + "!" if kind < 0.73 else text
    return text + "." if kind < 0.12 else text + "!" if kind < 0.15 else text
