"""Several commands in one instruction, in the order in which they are to be done."""

from random import Random

from .choose import barred, pick
from .commands import Command
from .style import capital, gerund

# Joints between bars, which keep their blanks visible.
THEN = barred(
    " then | and then |, then |, and then | and | and | and |, |; |; then |; next |, after that |"
    " and after that |, next |. |. |. then |. next, |. after that, |. now |"
    ", and once that is done |. once you've done that, |. when you're done, |, and afterwards |"
    ". afterwards, "
)
LAST = barred(
    " and then |, and finally | and finally |. finally, |; finally |, and | and |. lastly, |"
    ", then |, and at the end "
)
SECOND = barred(", then | then |. then | and then |, second, |; then ")
# After unquoted speech: nothing that could be more of it.
CLEAR = barred(
    ", then |; then |; next |. then |. after that, |. once you've done that, |, after that |; after that "
)


def link(left: str, joint: str, right: str, proper: bool, copied: tuple[str, ...]) -> str:
    """Two parts and a joint; in a proper text the word after a full stop gets a capital."""
    if proper and joint.startswith(". "):
        adverb = joint[2:]
        return f"{left}. {capital(adverb + right) if adverb else capital(right, copied)}"
    return left + joint + right


def reordered(rng: Random, first: str, second: str) -> str:
    """Two commands in a sentence that tells their order otherwise, or "" where the verbs do not allow it."""
    kind = rng.random()
    doing_first, doing_second = gerund(first), gerund(second)
    if kind < 0.3 and doing_second:
        return f"before {doing_second}, {first}"
    if kind < 0.5 and doing_second:
        return f"{first} before {doing_second}"
    if kind < 0.75 and doing_first:
        return f"after {doing_first}, {second}"
    if kind < 0.9 and doing_first:
        return f"{second} after {doing_first}"
    if doing_first:
        return f"start by {doing_first}, then {second}"
    return ""


def join(rng: Random, commands: list[Command], proper: bool) -> str:
    """One text of all commands."""
    first = commands[0].text
    if len(commands) == 2 and not any(c.bare for c in commands) and rng.random() < 0.1:
        text = reordered(rng, first, commands[1].text)
        if text:
            return text
    counted = rng.random() < 0.16
    text = ("first " if rng.random() < 0.6 else "first, ") + first if counted else first
    always = pick(rng, THEN) if rng.random() < 0.5 else ""
    for i, after in enumerate(commands[1:], 1):
        if commands[i - 1].bare:
            joint = pick(rng, CLEAR)
        elif i == len(commands) - 1 and len(commands) > 2 and rng.random() < 0.45:
            joint = pick(rng, LAST)
        elif counted and i == 1:
            joint = pick(rng, SECOND)
        else:
            joint = always or pick(rng, THEN)
        text = link(text, joint, after.text, proper, after.copied)
    return text
