"""Things to pick up: noun phrases of real and invented words, the same in the prompt and in the answer.

A model of 2 M parameters must not learn 250 nouns, it must learn to copy. So half of the objects hold a
word that nobody has seen before: syllables of many shapes, or plain random letters.
"""

import re
from random import Random
from typing import Any
from zlib import crc32

from . import words
from .choose import listed, pick
from .phrasings import PHRASINGS, SYNONYMS

LONGEST = 24
VOWELS = "aeiou"
CONSONANTS = "bcdfghjklmnpqrstvwxyz"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
ONSETS = listed(
    "b c d f g h j k l m n p r s t v w z bl br ch cl cr dr fl fr gl gr kn pl pr qu sc sh sk sl "
    "sm sn sp st str sw th tr tw wh wr zh"
)
NUCLEI = listed("a e i o u a e i o u ai au ea ee ei ia ie io oa oi oo ou ua ui y")
CODAS = listed("b ck d f g k l ll lm lt m mp n nd ng nk nt p r rb rd rk rm rn rt s sh sk ss st t th v x z zz")
SHAPES = listed("CVD CVCV CVDCVD VCV VDCV CVCVD CVCVCV CVDCV VCVD CVDCVCVD CVCVCVD VDCVD CVVD CVCVDCV")

# Words with a meaning of their own here; an invented word is none of them.
TAKEN = frozenset(
    re.findall(
        r"[a-z]+",
        " ".join(t for variants in PHRASINGS.values() for t in variants.values())
        + " ".join(w for group in SYNONYMS.values() for w in group)
        + words.TRAIN_NOUNS
        + words.HELD_OUT_NOUNS
        + words.TRAIN_SURFACES
        + words.HELD_OUT_SURFACES
        + " ".join(words.EVERY_ADJECTIVE)
        + " the a an my that this some our your his her its and then next after before finally first once"
        " when please thanks thank cheers you now kindly lastly second last done also rover robot hey hi"
        " hello it is are was of to for in up down under left right metre meter foot feet degree deg sec min"
        " one two ten six half zero not but if so or",
    )
)


def held_out(word: str) -> bool:
    """The rule that keeps a tenth of all invented words out of the training data."""
    return crc32(word.encode()) % 10 == 0


def invent(rng: Random, unseen: bool) -> str:
    """A word nobody has seen: from the held-out tenth, or from the rest."""
    while True:
        if rng.random() < 0.7:
            parts = []
            for sound in pick(rng, SHAPES):
                parts.append(pick(rng, ONSETS if sound == "C" else NUCLEI if sound == "V" else CODAS))
            word = "".join(parts)
        else:
            word = "".join([pick(rng, LETTERS) for _ in range(3 + int(rng.random() * 9))])
        if 3 <= len(word) <= 11 and held_out(word) == unseen and word not in TAKEN:
            return word


def noun_table(text: str) -> tuple[Any, ...]:
    """(noun, is plural or mass) pairs"""
    return tuple((noun.rstrip("*"), noun.endswith("*")) for noun in words.phrases(text))


NOUNS = {False: noun_table(words.TRAIN_NOUNS), True: noun_table(words.HELD_OUT_NOUNS)}
SURFACES = {False: noun_table(words.TRAIN_SURFACES), True: noun_table(words.HELD_OUT_SURFACES)}
ONE = ("the",) * 9 + ("a",) * 4 + ("my",) * 3 + ("that",) * 2 + ("this", "our", "your")
MANY = ("the",) * 6 + ("some",) * 4 + ("my",) * 2 + ("our",)


def noun_phrase(rng: Random, unseen: bool, table: dict[Any, Any]) -> tuple[Any, ...]:
    """("the blue zorvick cup", "blue zorvick cup")"""
    while True:
        noun, many = pick(rng, table[unseen])
        if rng.random() < 0.47:
            strange = invent(rng, unseen)
            if rng.random() < 0.7:
                noun, many = strange, False
            else:
                noun = f"{strange} {noun}"
        how_many = rng.random()
        if how_many < 0.32:
            noun = f"{pick(rng, words.EVERY_ADJECTIVE)} {noun}"
        elif how_many < 0.4:
            first, second = pick(rng, ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)))
            noun = f"{pick(rng, words.ADJECTIVES[first])} {pick(rng, words.ADJECTIVES[second])} {noun}"
        if len(noun) <= LONGEST:
            break
    if rng.random() < 0.07:
        return noun, noun
    determiner = pick(rng, MANY if many else ONE)
    if determiner == "a" and noun[0] in VOWELS:
        determiner = "an"
    return f"{determiner} {noun}", noun


def thing(rng: Random, unseen: bool) -> tuple[Any, ...]:
    """Something to find or to pick up."""
    return noun_phrase(rng, unseen, NOUNS)


def surface(rng: Random, unseen: bool) -> tuple[Any, ...]:
    """Something to put things on."""
    return noun_phrase(rng, unseen, SURFACES)
