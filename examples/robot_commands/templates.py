"""Templates made ready to render, and their split into train and held out."""

import re
from itertools import product
from random import Random
from typing import Any
from zlib import crc32

from .phrasings import SYNONYMS

HELD_OUT_SHARE = 0.15
SLOT = re.compile(r"\{\w+\}")
TOKEN = re.compile(r"\[([^\]]*)\]|\{(\w+)\}")


def lines(text: str) -> list[str]:
    """The templates of a block of text; one repeated there is drawn more often."""
    return [line.strip() for line in text.strip().splitlines() if line.strip()]


class Slot(str):
    """The name of something to fill in."""


def parse(template: str) -> list[Any]:
    """Parts: a str stays, a tuple is a choice between strings or lists of parts, a Slot is filled."""
    parts: list[Any] = []
    at = 0
    template = template.removeprefix("?").strip()
    for match in TOKEN.finditer(template):
        if match.start() > at:
            parts.append(template[at : match.start()])
        options, slot = match.groups()
        if options is not None:
            parts.append(tuple(parse(o) if "{" in o else o for o in options.split("|")))
        else:
            parts.append(SYNONYMS[slot] if slot in SYNONYMS else Slot(slot))
        at = match.end()
    if at < len(template):
        parts.append(template[at:])
    return parts


def render(parts: list[Any], slots: Any, rng: Random) -> str:
    """The template in words."""
    out: list[str] = []
    part: Any
    for part in parts:
        if type(part) is tuple:
            part = part[int(rng.random() * len(part))]
            if type(part) is list:
                part = render(part, slots, rng)
        elif type(part) is Slot:
            part = slots[part]
        out.append(part)
    return "".join(out)


def spelled(part: Any) -> list[Any]:
    """All that one part can say, slots as {name}."""
    if type(part) is tuple:
        return [text for option in part for text in spelled(option)]
    if type(part) is list:
        return ["".join(chosen) for chosen in product(*map(spelled, part))]
    return ["{" + part + "}"] if type(part) is Slot else [part]


def expansions(template: str) -> set[str]:
    """All that a template can say, its slots left open; two templates are apart when these sets are."""
    return set(spelled(parse(template)))


def vocabulary(template: str) -> set[str]:
    """The words a template can say, slots not counted."""
    return {
        word
        for part in parse(template)
        for text in spelled(part)
        for word in re.findall(r"[a-z'-]+", SLOT.sub(" ", text))
    }


def split(variants: dict[Any, Any], share: float = HELD_OUT_SHARE) -> dict[Any, Any]:
    """variant -> (train, held out).

    Fixed rule: in the order of their CRC-32, templates are held out until 15 % of their variant are, but
    only where every word of the template still occurs in a training template of the same action and where
    no training template can say the same. So what is unseen is the phrasing, never the vocabulary.
    """
    templates = {
        name: lines(text) if isinstance(text, str) else list(text) for name, text in variants.items()
    }
    every = list(dict.fromkeys(t for group in templates.values() for t in group))
    uses: dict[str, int] = {}
    says: dict[str, int] = {}
    for template in every:
        for word in vocabulary(template):
            uses[word] = uses.get(word, 0) + 1
        for sentence in expansions(template):
            says[sentence] = says.get(sentence, 0) + 1
    result = {}
    for name, group in templates.items():
        distinct = list(dict.fromkeys(group))
        wanted = int(len(distinct) * share + 0.5)
        held: set[str] = set()
        for template in sorted(distinct, key=lambda t: crc32(t.encode())):
            repeated = group.count(template) > 1 or any(says[s] > 1 for s in expansions(template))
            if len(held) == wanted or repeated or any(uses[w] < 2 for w in vocabulary(template)):
                continue
            held.add(template)
            for word in vocabulary(template):
                uses[word] -= 1
        result[name] = (tuple(t for t in group if t not in held), tuple(t for t in distinct if t in held))
    return result
