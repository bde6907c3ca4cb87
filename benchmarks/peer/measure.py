"""Measure one model on all engines: make files, load, compare logits, then time bursts in turns."""

import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from edgegpt_export.runner import compare
from peer.engine import Logits
from peer.process import Child, PeerError, prepare
from peer.roster import NOT_INSTALLED, REFERENCE, PeerSpec, version
from peer.weights import make_checkpoint

# A burst reads a prompt and decodes STEPS tokens; over its prompts the cache goes from 64 to 192.
PROMPTS, STEPS = (64, 96, 128, 160), 32
PREFILL = 128  # the prompt whose prefill is reported

# Logits are compared on a prompt, the first tokens of it read in one call, and STEPS tokens after it.
PARITY_PROMPT, PARITY_AT_ONCE = 64, 32
# Largest mean KL divergence from edgegpt fp32, in nats, by the bits of the weights. llama.cpp's table of
# GELU in float16 gives 3e-7, 8 bits 1e-4, 4 bits 2e-3; a first attention left out gives 5e-3 and more.
KL_LIMITS = {32: 1e-5, 8: 1e-3, 4: 1e-2}
OWN_LIMIT = 0.9  # of the greedy tokens from the timed path that its own logits agree with
TIE = 1e-2  # logits closer than this count as equal: with random weights many are


@dataclass(frozen=True)
class Parity:
    """Distance of a peer from edgegpt fp32 on the same tokens.

    Attributes:
        kl: mean KL(edgegpt fp32 || peer) in nats.
        max_abs: largest difference of a logit.
        top1: fraction of positions with the same most likely token; ties count as the same.
        own: fraction of tokens chosen by the timed path that are the peer's own most likely.
    """

    kl: float
    max_abs: float
    top1: float
    own: float

    def failure(self, bits: int) -> str | None:
        """Return why the peer does not compute the same model with weights of `bits`; None if it does."""
        limit = KL_LIMITS[bits]
        if not self.kl <= limit:  # also when it is NaN
            return f"computes something else: KL {self.kl:.1e} from edgegpt fp32, at most {limit:.0e} wanted"
        if self.own < OWN_LIMIT:
            return f"its timed path and its own logits choose different tokens: {self.own:.0%} agree"
        return None


@dataclass
class Result:
    """Measurements of one engine.

    Attributes:
        spec: the engine.
        error: why it was not timed, or not to the end.
        parity: None if the engine failed before its logits were compared.
        start: import_ms and load_ms.
        memory: as `Child.memory`, after loading and one burst.
        steps: microseconds of every decode step.
        prefills: milliseconds to the first token after PREFILL tokens.
    """

    spec: PeerSpec
    error: str | None = None
    parity: Parity | None = None
    start: dict[str, float] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
    steps: list[float] = field(default_factory=list)
    prefills: list[float] = field(default_factory=list)


def measure(size: str, specs: Sequence[PeerSpec], rounds: int, threads: int) -> list[Result]:
    """Measure the model of configs/models/{size}.yaml; return the results in the order of `specs`.

    Args:
        size: name of the model's config.
        specs: the engines; REFERENCE must be one of them.
        rounds: bursts of each engine with each of PROMPTS.
        threads: of each engine.

    Raises:
        PeerError: edgegpt fp32 does not run, so there is nothing to compare with.
    """
    results = {spec.name: Result(spec) for spec in specs}
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        _log(f"{size}: making files")
        config = make_checkpoint(folder, size)
        ids = np.random.default_rng(1).integers(config.vocab_size, size=max(PROMPTS)).tolist()
        children: dict[str, Child] = {}
        for spec in sorted(specs, key=lambda spec: spec.name != REFERENCE):
            result = results[spec.name]
            try:
                children[spec.name] = _start(result, folder, threads, children.get(REFERENCE), ids, stack)
            except PeerError as e:
                result.error = str(e)
                if spec.name == REFERENCE:
                    raise PeerError(f"{REFERENCE} does not run, so nothing can be compared: {e}") from e
            _log(f"{size}: {spec.name} {'is left out: ' + result.error if result.error else 'is ready'}")
        order = turns([name for name in children if not results[name].error], PROMPTS, rounds)
        _time_bursts(order, children, results, ids)
    return list(results.values())


def turns(names: Sequence[str], prompts: Sequence[int], rounds: int) -> Iterator[tuple[str, int]]:
    """Yield pairs of an engine's name and the length of the prompt of its burst.

    In a turn each engine has one burst with the same prompt, so that noise of the machine affects all
    engines alike; a round is one turn per prompt length. The order within a turn is drawn anew from a
    fixed seed, so that no engine always follows the same one.
    """
    rng = random.Random(0)
    for _ in range(rounds):
        for prompt in prompts:
            for name in rng.sample(names, len(names)):
                yield name, prompt


def parity(expected: Logits, got: Logits, tokens: Sequence[int]) -> Parity:
    """Compare logits (L, V) of which the last len(tokens) rows chose `tokens`."""
    row = compare(expected, got, TIE)
    last = got[-len(tokens) :]
    own = last.max(-1) - last[np.arange(len(tokens)), tokens] <= TIE
    return Parity(row.kl, row.max_abs, row.top1, float(own.mean()))


def _start(
    result: Result, folder: Path, threads: int, reference: Child | None, ids: list[int], stack: ExitStack
) -> Child:
    """Load one engine and compare its logits with the reference's; raises PeerError."""
    if version(result.spec) == NOT_INSTALLED:
        raise PeerError(f"{result.spec.package} is not installed; `make peers` installs it")
    prepare(result.spec, folder)
    child = Child(result.spec, folder, threads)
    stack.callback(child.close)
    child.burst(ids[:PREFILL], STEPS)
    result.start, result.memory = child.start, child.memory()
    result.parity = _measure_parity(child, reference or child, ids[:PARITY_PROMPT])
    if failure := result.parity.failure(result.spec.bits):
        raise PeerError(failure)
    return child


def _measure_parity(child: Child, reference: Child, prompt: Sequence[int]) -> Parity:
    """Decode greedily by the timed path, then read the same tokens with both and compare the logits."""
    _, tokens = child.burst(prompt, STEPS)
    ids = [*prompt, *tokens[:-1]]
    return parity(reference.logits(ids, PARITY_AT_ONCE), child.logits(ids, PARITY_AT_ONCE), tokens)


def _time_bursts(
    order: Iterable[tuple[str, int]], children: dict[str, Child], results: dict[str, Result], ids: list[int]
) -> None:
    """Run the bursts in order; an engine that fails gets no further burst."""
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


def _log(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
