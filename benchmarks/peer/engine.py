"""What every engine's file gives: two functions over one loaded model."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

Burst = tuple[list[float], list[int]]
Logits = NDArray[np.float32]


@dataclass(frozen=True)
class Peer:
    """One loaded model. Each call begins with an empty cache.

    An engine's file has `prepare(folder, variant)`, which makes from folder/checkpoint what the engine
    reads, and `open_peer(folder, variant, threads)`, which returns this.

    Attributes:
        burst: reads a prompt and decodes n tokens greedily, by the path that is timed. Returns the
            seconds of n + 1 clock readings, before the prompt and after each token, and the tokens.
        logits: reads ids, the first `at_once` in one go and the rest one by one. Returns the logits
            (L - at_once + 1, V) after each of these calls.
    """

    burst: Callable[[Sequence[int], int], Burst]
    logits: Callable[[Sequence[int], int], Logits]


def timed(start: float, tokens: Iterable[int]) -> Burst:
    """Take tokens as they come, with the clock's reading after each."""
    marks, taken = [start], []
    for token in tokens:
        marks.append(perf_counter())
        taken.append(token)
    return marks, taken


def peer_of(empty: Callable[[], None], read: Callable[[Sequence[int]], Logits]) -> Peer:
    """A peer whose engine leaves the loop to its caller.

    Args:
        empty: forgets all tokens.
        read: takes new tokens into the cache and returns the last one's logits (V,), which may be
            overwritten by the next call. The greedy choice is numpy's argmax, as edgegpt's own.
    """

    def tokens(prompt: Sequence[int], n: int) -> Iterable[int]:
        new = prompt
        for _ in range(n):
            token = int(read(new).argmax())
            yield token
            new = (token,)

    def burst(prompt: Sequence[int], n: int) -> Burst:
        empty()
        return timed(perf_counter(), tokens(prompt, n))

    def logits(ids: Sequence[int], at_once: int) -> Logits:
        empty()
        return logits_of(read, ids, at_once)

    return Peer(burst, logits)


def logits_of(read: Callable[[Sequence[int]], Logits], ids: Sequence[int], at_once: int) -> Logits:
    """`Peer.logits` over the `read` of an empty cache."""
    rows = [read(ids[:at_once]).copy()]
    rows += [read((token,)).copy() for token in ids[at_once:]]
    return np.stack(rows)
