"""The interface that every engine's file implements, and the folder in which its files are.

An engine's file is a module of this package with two functions:
- `prepare(folder, variant)` makes the files that the engine reads from the checkpoint in `folder`;
- `open_peer(folder, variant, threads)` loads them and returns a `Peer`.

No pydantic and no torch is imported here: both would count as memory of every engine.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Burst = tuple[list[float], list[int]]
Logits = NDArray[np.float32]


@dataclass(frozen=True)
class Peer:
    """One loaded model. Each call begins with an empty cache.

    Attributes:
        burst: reads a prompt and decodes n tokens greedily, by the path that is timed. Returns n + 1
            clock readings in seconds, before the prompt and after each token, and the n tokens.
        logits: reads ids, the first `at_once` in one call and the rest one by one. Returns the logits
            (L - at_once + 1, V) after each of these calls.
    """

    burst: Callable[[Sequence[int], int], Burst]
    logits: Callable[[Sequence[int], int], Logits]


def timed(start: float, tokens: Iterable[int]) -> Burst:
    """Take all tokens and read the clock after each; `start` is the first reading."""
    marks, taken = [start], []
    for token in tokens:
        marks.append(perf_counter())
        taken.append(token)
    return marks, taken


def peer_of(empty: Callable[[], None], read: Callable[[Sequence[int]], Logits]) -> Peer:
    """Make a peer of an engine that leaves the decoding loop to its caller.

    Args:
        empty: removes all tokens from the cache.
        read: appends tokens to the cache and returns the logits (V,) after the last one, which the
            next call may overwrite. The greedy choice is numpy's argmax, as in edgegpt itself.
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
    """Return what `Peer.logits` returns, by calling `read` on a cache that is empty."""
    rows = [read(ids[:at_once]).copy()]
    rows += [read((token,)).copy() for token in ids[at_once:]]
    return np.stack(rows)


class Shape(NamedTuple):
    """Sizes of the model that some engines need and do not find in their own files."""

    vocab_size: int
    block_size: int


def checkpoint_path(folder: Path) -> Path:
    """Return the checkpoint from which every engine's files are made."""
    return folder / "checkpoint"


def write_shape(folder: Path, shape: Shape) -> None:
    """Write the model's shape to its folder."""
    (folder / "shape.json").write_text(json.dumps(shape._asdict()))


def read_shape(folder: Path) -> Shape:
    """Read the model's shape from its folder."""
    return Shape(**json.loads((folder / "shape.json").read_text()))
