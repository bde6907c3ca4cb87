"""What a robot can check of a file without PyTorch: its own evidence, and what the engine makes of it.

Shapes: V is the tokens that may be generated.

The evidence that is in a file, number by number, and what can be repeated here without PyTorch.

How far one distribution of the next token is from another. Shapes: V tokens.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from math import ceil
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from edgegpt.errors import ArtifactError
from edgegpt.runtime.artifact import Artifact, open_artifact
from edgegpt.runtime.engine import Engine
from edgegpt.runtime.sampling import SamplingParams

_SEED: Final = 0  # of the tokens; the same file gives the same result
_LONGEST: Final = 160  # tokens that are read; beyond two chunks of a prompt nothing new happens
_NEW_TOKENS: Final = 24

Logits = NDArray[np.float32]


def parity_failures(artifact: Artifact) -> list[str]:
    """What the export's verification found beyond its limits, one sentence each.

    An export stamps only what it has proved, and the file's checksum covers the stamp; so this fails
    for a file that was made without a proof, or by an export of another mind than ours.

    Raises:
        ArtifactError: the file holds no evidence, or it cannot be read.
    """
    path, evidence = artifact.path, artifact.evidence
    if not evidence.get("rows"):
        raise ArtifactError(
            f"{path} holds no evidence of a verification against PyTorch; export it with `edgegpt export`"
        )
    try:
        limits = evidence["limits"]
        found = [sentence for row in evidence["rows"] for sentence in row_failures(row, limits)]
        for name, check in evidence["checks"].items():
            if not check["value"] <= check["limit"]:  # NaN is beyond every limit
                found.append(f"{name} was {check['value']:.3g}, the limit is {check['limit']:g}")
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as e:
        raise ArtifactError(f"the evidence in {path} is damaged; export it again") from e
    return found


def evidence_limit(artifact: Artifact, name: str) -> float:
    """A limit stamped beside the evidence, as `causality`; raises ArtifactError where it is missing."""
    try:
        return float(artifact.evidence["limits"][name])
    except (TypeError, ValueError, LookupError, OverflowError) as e:
        raise ArtifactError(f"the evidence in {artifact.path} is damaged; export it again") from e


def parity_summary(artifact: Artifact) -> str:
    """The evidence that `parity_failures` has found in order, in a few words."""
    rows, checks = artifact.evidence["rows"], artifact.evidence["checks"]
    return (
        f"at lengths {', '.join(str(row['length']) for row in rows)}: KL divergence from PyTorch at most "
        f"{max(row['kl'] for row in rows):.1e}, top-1 agreement at least "
        f"{min(row['top1'] for row in rows):.1%}; {', '.join(checks)}"
    )


def causality(engine: Engine) -> float:
    """How far the loss of an earlier token moves, in nats, when tokens after it are changed."""
    ids = _ids(engine)
    before, moved = engine.token_losses(ids), [0.0]
    # Cuts inside a piece of the prompt: what is in another piece is not even read yet.
    for cut in sorted({2, 33, len(ids) // 2 + 1, len(ids) - 1}):
        if 2 <= cut < len(ids):
            changed = [*ids[:cut], *((i + 1) % engine.n_valid for i in ids[cut:])]
            moved.append(float(np.abs(engine.token_losses(changed)[: cut - 1] - before[: cut - 1]).max()))
    return float(np.max(moved))  # keeps NaN, unlike max()


def stepwise(engine: Engine, *, by_kl: bool) -> float:
    """How far a prompt read token by token is from the same prompt read whole, at several lengths.

    Args:
        engine: of the file.
        by_kl: whether to give the KL divergence in nats, as for quantised weights, whose activations
            tip over between two integers; else the largest difference of a logit.
    """
    ids, found = _ids(engine), [0.0]
    difference = kl if by_kl else _max_abs
    for n, logits in _step_by_step(engine, ids):
        if n in (2, 7, 33, 64, 65, len(ids)):
            whole = engine.prefill(engine.new_cache(), ids[:n])
            assert whole is not None  # nothing halts it
            found.append(float(difference(whole, logits)))
    return float(np.max(found))


def differing_tokens(one: Callable[[], Engine]) -> int:
    """How many tokens differ between two runs of the same requests, on two engines made by `one`.

    Greedy, and drawn with a seed; on the second engine another request has come before.
    """
    first, second = one(), one()
    prompt = _ids(first)[: max(1, first.capacity // 3)]
    for _ in second.generate(prompt[::-1], SamplingParams(max_new_tokens=3, seed=1)):
        pass
    different = 0
    for params in (
        SamplingParams(max_new_tokens=_NEW_TOKENS, temperature=0.0),
        SamplingParams(max_new_tokens=_NEW_TOKENS, temperature=1.0, seed=7),
    ):
        pairs = zip_longest(first.generate(prompt, params), second.generate(prompt, params))
        different += sum(a != b for a, b in pairs)
    return different


def row_failures(row: dict[str, Any], limits: dict[str, Any]) -> Iterator[str]:
    """One sentence for each number of one prompt length that is beyond its limit."""
    length = row["length"]
    if limits["max_abs"] is not None and not row["max_abs"] <= limits["max_abs"]:
        yield f"length {length}: the largest difference from PyTorch was {row['max_abs']:.3g}"
    if not row["kl"] <= limits["kl"]:
        yield f"length {length}: the KL divergence from PyTorch was {row['kl']:.3g}"
    # The stamp keeps three digits, so that 6 of 7 comes back as 0.857.
    differing = length * (1 - row["top1"]) - length * 0.5e-3
    if not differing <= ceil(round(length * (1 - limits["top1"]), 6)):
        yield f"length {length}: the most likely token agreed at {row['top1']:.2%} of positions"


def _step_by_step(engine: Engine, ids: list[int]) -> Iterator[tuple[int, Logits]]:
    """Number of tokens read, and logits (V,) of the last."""
    cache = engine.new_cache()
    logits = engine.prefill(cache, ids[:1])
    assert logits is not None  # nothing halts it
    yield 1, logits
    for n, token_id in enumerate(ids[1:], start=2):
        yield n, engine.decode_one_token(cache, token_id)


def _max_abs(a: Logits, b: Logits) -> float:
    return float(np.abs(a - b).max())


def _ids(engine: Engine) -> list[int]:
    n = min(engine.capacity, _LONGEST)
    ids: list[int] = np.random.default_rng(_SEED).integers(engine.n_valid, size=n).tolist()
    return ids


# What each check of the exporter measures; its own words are not in the file.
_WHAT: Final = {
    "weight bytes": "bytes of the weights beside the analytic count",
    "precision": "matrices that are not of the bits that the file's precision and recipe say",
    "operators": "operators that the target does not allow",
    "causality": "movement of an earlier logit when later tokens are changed",
    "chunked = whole": "a prompt read in pieces beside the same prompt read whole",
    "stepwise = whole": "a prompt read token by token beside the same prompt read whole",
    "batch = singles": "prompts read as a batch beside the same prompts read one by one",
    "task accuracy": "points of exact match lost against float32 on the exporter's examples",
}


@dataclass(frozen=True)
class Length:
    """PyTorch against the file on one prompt of so many tokens; see the exporter's evidence."""

    tokens: int
    max_abs: float
    kl: float
    top1: float
    passed: bool


@dataclass(frozen=True)
class Number:
    """One number that must not be above its limit."""

    name: str
    value: float
    limit: float
    what: str

    @property
    def passed(self) -> bool:
        """NaN is beyond every limit."""
        return self.value <= self.limit


@dataclass(frozen=True)
class Evidence:
    """What the export measured and stamped.

    Attributes:
        max_abs, kl, top1: limits of each prompt; max_abs is None where only the distribution is judged.
        lengths: one for each prompt.
        checks: the other numbers.
        failures: a sentence for everything beyond its limit.
    """

    max_abs: float | None
    kl: float
    top1: float
    lengths: tuple[Length, ...]
    checks: tuple[Number, ...]
    failures: tuple[str, ...]


def read_evidence(artifact: Artifact) -> Evidence:
    """The evidence of an open file.

    Raises:
        ArtifactError: the file holds none, or it cannot be read.
    """
    failures, stamped = parity_failures(artifact), artifact.evidence
    try:
        limits = stamped["limits"]
        return Evidence(
            max_abs=None if limits["max_abs"] is None else float(limits["max_abs"]),
            kl=float(limits["kl"]),
            top1=float(limits["top1"]),
            lengths=tuple(_length(row, limits) for row in stamped["rows"]),
            checks=tuple(_check(name, check) for name, check in stamped["checks"].items()),
            failures=tuple(failures),
        )
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as e:
        raise ArtifactError(f"the evidence in {artifact.path} is damaged; export it again") from e


def repeat(artifact: Artifact, threads: int, on_step: Callable[[str], None]) -> tuple[Number, ...]:
    """Causality, stepwise = whole and determinism of the file, on this machine, now.

    Args:
        artifact: the open file, whose evidence `read_evidence` has found in order.
        threads: of the sessions that are made.
        on_step: is told what happens next, in a few words.

    Raises:
        ArtifactError: the evidence lacks a limit.
    """
    by_kl = artifact.evidence["limits"]["max_abs"] is None
    most_moved = evidence_limit(artifact, "causality")
    most_different = evidence_limit(artifact, "consistency")
    engine = Engine.from_artifact(artifact)
    on_step("changing later tokens")
    moved = causality(engine)
    on_step("token by token")
    difference = stepwise(engine, by_kl=by_kl)
    on_step("the same requests twice")
    different = differing_tokens(lambda: Engine.from_artifact(open_artifact(artifact.path, threads=threads)))
    unit = "nats of KL divergence" if by_kl else "difference of a logit"
    return (
        Number(
            "causality",
            moved,
            most_moved,
            "nats by which the loss of an earlier token moves when later tokens are changed",
        ),
        Number("stepwise = whole", difference, most_different, f"{_WHAT['stepwise = whole']}, {unit}"),
        Number(
            "determinism",
            different,
            0,
            "tokens that differ between two sessions given the same requests, greedy and with a seed",
        ),
    )


def _length(row: dict[str, Any], limits: dict[str, Any]) -> Length:
    return Length(
        tokens=int(row["length"]),
        max_abs=float(row["max_abs"]),
        kl=float(row["kl"]),
        top1=float(row["top1"]),
        passed=not any(row_failures(row, limits)),
    )


def _check(name: str, check: dict[str, Any]) -> Number:
    return Number(name, float(check["value"]), float(check["limit"]), _WHAT.get(name, ""))


def kl(reference: NDArray[Any], logits: NDArray[Any]) -> NDArray[np.float64]:
    """KL(reference || logits) of softmax over the last axis, in nats: (..., V) twice -> (...)."""
    log_p, log_q = _log_softmax(reference), _log_softmax(logits)
    divergence: NDArray[np.float64] = (np.exp(log_p) * (log_p - log_q)).sum(-1)
    return divergence


def _log_softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    normalised: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return normalised
