"""Templates: parse and render them, choose among them, and hold some of them out of training."""

import re
from collections.abc import Mapping, Sequence
from itertools import product
from random import Random
from typing import NamedTuple, Protocol, TypeAlias, TypeVar
from zlib import crc32

from .phrasings import SYNONYMS, Templates

HELD_OUT_SHARE = 0.15
SLOT = re.compile(r"\{\w+\}")
TOKEN = re.compile(r"\[([^\]]*)\]|\{(\w+)\}")

T = TypeVar("T")


class Slot(str):
    """The name of something to fill in."""


# A str is written as it is, a Slot is filled in, a tuple is a choice between strings and parsed templates.
Part: TypeAlias = "str | Slot | tuple[str | list[Part], ...]"


class Slots(Protocol):
    """Text for each slot: a dict, or an object that draws the text when it is asked for."""

    def __getitem__(self, slot: str, /) -> str:
        """Return the text for one slot."""


class Division(NamedTuple):
    """Templates of one variant, for training and held out."""

    train: tuple[str, ...]
    held_out: tuple[str, ...]


def choose(rng: Random, options: Sequence[T]) -> T:
    """Return one of the options, all equally likely; faster than random.choice."""
    return options[int(rng.random() * len(options))]


def by_weight(weights: Mapping[str, int]) -> tuple[str, ...]:
    """Return each name as often as its weight, so that choose() draws it in proportion."""
    return tuple(name for name, weight in weights.items() for _ in range(weight))


def split_words(text: str) -> tuple[str, ...]:
    """Return the words of a text; in a line with |, what is between the bars."""
    found: list[str] = []
    for line in text.strip().splitlines():
        found += [part.strip() for part in (line.split("|") if "|" in line else line.split())]
    return tuple(found)


def split_bars(text: str) -> tuple[str, ...]:
    """Return what is between the bars of a text, blanks included."""
    return tuple(text.split("|"))


def parse(template: str) -> list[Part]:
    """Return the parts of a template."""
    parts: list[Part] = []
    end = 0
    template = template.removeprefix("?").strip()
    for match in TOKEN.finditer(template):
        if match.start() > end:
            parts.append(template[end : match.start()])
        options, slot = match.groups()
        if options is not None:
            parts.append(tuple(parse(o) if "{" in o else o for o in options.split("|")))
        else:
            parts.append(SYNONYMS[slot] if slot in SYNONYMS else Slot(slot))
        end = match.end()
    if end < len(template):
        parts.append(template[end:])
    return parts


def render(parts: Sequence[Part], slots: Slots, rng: Random) -> str:
    """Return the text of a parsed template, with choices drawn and slots filled."""
    texts: list[str] = []
    for part in parts:
        if isinstance(part, tuple):
            option = choose(rng, part)
            texts.append(option if isinstance(option, str) else render(option, slots, rng))
        elif isinstance(part, Slot):
            texts.append(slots[part])
        else:
            texts.append(part)
    return "".join(texts)


def texts_of(part: "Part | list[Part]") -> list[str]:
    """Return all texts of one part, with slots as {name}."""
    if isinstance(part, tuple):
        return [text for option in part for text in texts_of(option)]
    if isinstance(part, list):
        return ["".join(texts) for texts in product(*map(texts_of, part))]
    return ["{" + part + "}"] if isinstance(part, Slot) else [part]


def expansions(template: str) -> set[str]:
    """Return all texts of a template, slots left open; two templates differ when these sets are disjoint."""
    return set(texts_of(parse(template)))


def words_of(template: str) -> set[str]:
    """Return the words in all texts of a template, slots not counted."""
    return {
        word
        for part in parse(template)
        for text in texts_of(part)
        for word in re.findall(r"[a-z'-]+", SLOT.sub(" ", text))
    }


def hold_out(variants: Templates) -> dict[str, Division]:
    """Divide the templates of every variant into those for training and those held out.

    The rule is fixed: in the order of their CRC-32, templates are held out until 15 % of their variant
    are, but only where every word of the template still occurs in a training template of the same
    action, and where no other template has a text in common with it. So a phrasing that is held out is
    new, but its words are not.
    """
    every = list(dict.fromkeys(template for group in variants.values() for template in group))
    word_uses: dict[str, int] = {}
    text_uses: dict[str, int] = {}
    for template in every:
        for word in words_of(template):
            word_uses[word] = word_uses.get(word, 0) + 1
        for text in expansions(template):
            text_uses[text] = text_uses.get(text, 0) + 1
    divisions = {}
    for name, group in variants.items():
        distinct = list(dict.fromkeys(group))
        wanted = int(len(distinct) * HELD_OUT_SHARE + 0.5)
        held: set[str] = set()
        for template in sorted(distinct, key=lambda t: crc32(t.encode())):
            repeated = group.count(template) > 1 or any(text_uses[t] > 1 for t in expansions(template))
            if len(held) == wanted or repeated or any(word_uses[w] < 2 for w in words_of(template)):
                continue
            held.add(template)
            for word in words_of(template):
                word_uses[word] -= 1
        divisions[name] = Division(
            tuple(t for t in group if t not in held), tuple(t for t in distinct if t in held)
        )
    return divisions
