"""What is wrong with keys and values, in sentences."""

import reprlib
from collections.abc import Sequence
from typing import Final, NamedTuple

_MOST: Final = 10  # that an error lists


class Problem(NamedTuple):
    """One thing that is wrong with a mapping.

    Attributes:
        sentence: what it is.
        unknown: a key that there is not, for which `keys` may hold the one that was meant.
        keys: those that there are.
    """

    sentence: str
    unknown: str = ""
    keys: Sequence[str] = ()


def unknown_key(key: object, keys: Sequence[str], inside: str = "") -> Problem:
    """A key that is none of `keys`; `inside` is what stands before it, such as `model.`."""
    return Problem(f"unknown key {shown(f'{inside}{key}')}", str(key), keys)


def missing_key(key: str) -> Problem:
    """A key that must be given."""
    return Problem(f"the key {key!r} is missing")


def wrong_value(key: str, wanted: str, value: object) -> Problem:
    """A value that is not what is `wanted`, such as `must be a number`."""
    try:
        given = reprlib.repr(value)
    except ValueError:  # Python writes no whole number of more than 4300 digits
        given = "a number of thousands of digits"
    return Problem(f"{key} {wanted}, got {_cut(given)}")


def listed(mistakes: Sequence[Problem]) -> str:
    """The first mistakes in one line; a hint that many of them share is given once."""
    lines: list[str] = []
    for mistake in mistakes[:_MOST]:
        hint = nearest(mistake.unknown, mistake.keys)
        given = any(hint in earlier for earlier in lines)
        lines.append(mistake.sentence if given else mistake.sentence + hint)
    if len(mistakes) > _MOST:
        lines.append(f"and {len(mistakes) - _MOST} more")
    return "; ".join(lines)


def nearest(key: object, keys: Sequence[str]) -> str:
    """`, did you mean 'n_embd'?`, or the list of valid keys where nothing is near."""
    import difflib  # only who has made a mistake pays for it

    if near := difflib.get_close_matches(str(key)[:100], keys, n=1):
        return f", did you mean {near[0]!r}?"
    return f"; the keys are {', '.join(keys)}" if keys else ""


def shown(key: object) -> str:
    """A key as it was written, shortened."""
    return _cut(repr(key))


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
