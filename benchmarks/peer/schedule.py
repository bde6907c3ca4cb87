"""The order of bursts: every engine in every turn, so that a noisy moment hits all alike."""

import random
from collections.abc import Iterator, Sequence


def turns(names: Sequence[str], prompts: Sequence[int], rounds: int) -> Iterator[tuple[str, int]]:
    """Pairs of an engine's name and the tokens its burst begins with.

    In a turn each engine has one burst with the same prompt; a round is one turn per prompt length.
    The order within a turn is drawn anew from a fixed seed, so that none always follows the same.
    """
    rng = random.Random(0)
    for _ in range(rounds):
        for prompt in prompts:
            for name in rng.sample(names, len(names)):
                yield name, prompt
