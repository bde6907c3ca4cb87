"""One model, all engines: prepare, load, prove, then bursts that alternate."""

import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from peer.parity import PROMPT, Parity, prove
from peer.process import Child, PeerError, prepare
from peer.roster import NOT_INSTALLED, REFERENCE, Row, version
from peer.schedule import turns
from peer.weights import make_checkpoint

# A burst reads a prompt and decodes STEPS tokens; over its prompts the cache goes from 64 to 192.
PROMPTS, STEPS = (64, 96, 128, 160), 32
PREFILL = 128  # the prompt whose reading is reported


@dataclass
class Result:
    """What was found of one row.

    Attributes:
        row: whose result.
        error: why it was not timed, or not to the end.
        parity: None if it did not come to that.
        start: import_ms and load_ms.
        memory: as `Child.memory`, after loading and one burst.
        steps: microseconds of every decode step.
        prefills: milliseconds to the first token after PREFILL tokens.
    """

    row: Row
    error: str | None = None
    parity: Parity | None = None
    start: dict[str, float] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
    steps: list[float] = field(default_factory=list)
    prefills: list[float] = field(default_factory=list)


def measure(size: str, rows: Sequence[Row], rounds: int, threads: int) -> list[Result]:
    """Results of a model by the name of its config, in the order of `rows`, which hold REFERENCE.

    Raises:
        PeerError: edgegpt fp32 itself does not run, so there is nothing to compare with.
    """
    results = {row.name: Result(row) for row in rows}
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        _say(f"{size}: making files")
        config = make_checkpoint(folder, size)
        ids = np.random.default_rng(1).integers(config.vocab_size, size=max(PROMPTS)).tolist()
        children: dict[str, Child] = {}
        for row in sorted(rows, key=lambda row: row.name != REFERENCE):
            result = results[row.name]
            try:
                children[row.name] = _start(result, folder, threads, children.get(REFERENCE), ids, stack)
            except PeerError as e:
                result.error = str(e)
                if row.name == REFERENCE:
                    raise PeerError(f"{REFERENCE} does not run, so nothing can be compared: {e}") from e
            _say(f"{size}: {row.name} {'is left out: ' + result.error if result.error else 'is ready'}")
        order = turns([name for name in children if not results[name].error], PROMPTS, rounds)
        _run(order, children, results, ids)
    return list(results.values())


def _start(
    result: Result, folder: Path, threads: int, reference: Child | None, ids: list[int], stack: ExitStack
) -> Child:
    """Load one engine and prove what it computes; raises PeerError."""
    if version(result.row) == NOT_INSTALLED:
        raise PeerError(f"{result.row.package} is not installed; `make peers` installs it")
    prepare(result.row, folder)
    child = Child(result.row, folder, threads)
    stack.callback(child.close)
    child.burst(ids[:PREFILL], STEPS)
    result.start, result.memory = child.start, child.memory()
    result.parity = prove(child, reference or child, ids[:PROMPT])
    if failure := result.parity.failure(result.row.bits):
        raise PeerError(failure)
    return child


def _run(
    order: Iterable[tuple[str, int]], children: dict[str, Child], results: dict[str, Result], ids: list[int]
) -> None:
    """Bursts as ordered; an engine that fails on the way has no more."""
    for name, prompt in order:
        result = results[name]
        if result.error:
            continue
        try:
            ms, _ = children[name].burst(ids[:prompt], STEPS)
        except PeerError as e:
            result.error = f"failed while it was timed: {e}"
            continue
        if prompt == PREFILL:
            result.prefills.append(ms[0])
        result.steps += [1e3 * step for step in ms[1:]]


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
