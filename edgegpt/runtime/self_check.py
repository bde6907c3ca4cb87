"""Checks of a file that need no PyTorch: causality, stepwise reading and determinism through the engine.

Shapes: V is the number of tokens that may be generated.
"""

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from edgegpt.runtime.artifact import Artifact, open_artifact
from edgegpt.runtime.engine import Engine
from edgegpt.runtime.evidence import CheckResult, read_evidence
from edgegpt.runtime.sampling import SamplingParams

_SEED: Final = 0  # seed of the tokens; the same file gives the same result
_LONGEST: Final = 160  # tokens that are read; more than two prompt chunks show nothing new
_NEW_TOKENS: Final = 24

Logits = NDArray[np.float32]


def repeat_checks(
    artifact: Artifact, threads: int, on_step: Callable[[str], None]
) -> tuple[CheckResult, ...]:
    """Repeat causality, stepwise = whole and determinism on this machine, within the file's own limits.

    Args:
        artifact: the open file.
        threads: number of threads of the sessions that are made.
        on_step: called with a short status message.

    Raises:
        ArtifactError: the file holds no verification result, or it cannot be read.
    """
    limits = read_evidence(artifact).limits
    engine = Engine.from_artifact(artifact)
    on_step("changing later tokens")
    moved = causality(engine)
    on_step("token by token")
    difference = stepwise(engine, by_kl=limits.by_kl)
    on_step("the same requests twice")
    different = differing_tokens(lambda: Engine.from_artifact(open_artifact(artifact.path, threads=threads)))
    unit = "nats of KL divergence" if limits.by_kl else "difference of a logit"
    return (
        CheckResult(
            "causality",
            moved,
            limits.causality,
            "change in the loss of an earlier token, in nats, when later tokens are changed",
        ),
        CheckResult(
            "stepwise = whole",
            difference,
            limits.consistency,
            f"a prompt read token by token against the same prompt read whole, {unit}",
        ),
        CheckResult(
            "determinism",
            different,
            0,
            "tokens that differ between two sessions given the same requests, greedy and with a seed",
        ),
    )


def causality(engine: Engine) -> float:
    """Return the largest change in the loss of an earlier token, in nats, when later tokens are changed."""
    ids = _ids(engine)
    before, moved = engine.token_losses(ids), [0.0]
    # Cuts inside a prefill chunk: tokens of a later chunk are not read yet.
    for cut in sorted({2, 33, len(ids) // 2 + 1, len(ids) - 1}):
        if 2 <= cut < len(ids):
            changed = [*ids[:cut], *((i + 1) % engine.n_valid for i in ids[cut:])]
            moved.append(float(np.abs(engine.token_losses(changed)[: cut - 1] - before[: cut - 1]).max()))
    return float(np.max(moved))  # keeps NaN, unlike max()


def stepwise(engine: Engine, *, by_kl: bool) -> float:
    """Return the largest difference between a prompt read token by token and whole, at several lengths.

    Args:
        engine: engine of the file.
        by_kl: compare by KL divergence in nats, as for quantised weights, whose activations can move
            from one integer to the next; else by the largest difference of a logit.
    """
    ids, found = _ids(engine), [0.0]
    difference = kl if by_kl else _max_abs
    for n, logits in _step_by_step(engine, ids):
        if n in (2, 7, 33, 64, 65, len(ids)):
            whole = engine.prefill(engine.new_cache(), ids[:n])
            assert whole is not None  # nothing cancels it
            found.append(float(difference(whole, logits)))
    return float(np.max(found))


def differing_tokens(new_engine: Callable[[], Engine]) -> int:
    """Count the tokens that differ between two engines given the same requests.

    One request is greedy and one is drawn with a seed; the second engine has answered another before.
    """
    first, second = new_engine(), new_engine()
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


def kl(reference: NDArray[Any], logits: NDArray[Any]) -> NDArray[np.float64]:
    """Return KL(reference || logits) of softmax over the last axis, in nats: (..., V) twice -> (...)."""
    log_p, log_q = _log_softmax(reference), _log_softmax(logits)
    divergence: NDArray[np.float64] = (np.exp(log_p) * (log_p - log_q)).sum(-1)
    return divergence


def _log_softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    normalised: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return normalised


def _step_by_step(engine: Engine, ids: list[int]) -> Iterator[tuple[int, Logits]]:
    """Yield the number of tokens read, and the logits (V,) of the last."""
    cache = engine.new_cache()
    logits = engine.prefill(cache, ids[:1])
    assert logits is not None  # nothing cancels it
    yield 1, logits
    for n, token_id in enumerate(ids[1:], start=2):
        yield n, engine.decode_one_token(cache, token_id)


def _max_abs(a: Logits, b: Logits) -> float:
    return float(np.abs(a - b).max())


def _ids(engine: Engine) -> list[int]:
    n = min(engine.capacity, _LONGEST)
    ids: list[int] = np.random.default_rng(_SEED).integers(engine.n_valid, size=n).tolist()
    return ids
