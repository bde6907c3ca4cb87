"""Verify that an ONNX file computes what the PyTorch model computes, within limits.

PyTorch is the reference for whole prompts. Everything else is compared within the file: the same
prompt in chunks, token by token and in a batch, fed as a robot feeds it. For the engine target that
is through a buffer bound as past and as present, longer than the prompt, whose unused rows hold
1e30, so that reading one would show. Shapes: L positions, V vocab_size.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain, pairwise
from pathlib import Path
from typing import Final

import numpy as np
import onnx
import onnxruntime as ort
import torch

from edgegpt.config import ModelConfig
from edgegpt.contract import ENGINE
from edgegpt.errors import VerificationError
from edgegpt.model import GPT, Checkpoint, load_checkpoint
from edgegpt.quantization import read_recipe
from edgegpt.runtime import Artifact, CheckResult, Evidence, Limits, ParityRow, open_artifact
from edgegpt_export.bit_allocation import Quantisation
from edgegpt_export.calibration import eval_mode
from edgegpt_export.graph_checks import (
    expected_weight_bytes,
    misnamed_matrices,
    unwanted_operators,
    weight_bytes,
)
from edgegpt_export.request import OnStep, read_examples
from edgegpt_export.runner import GrowingCache, Ids, Logits, SharedCache, compare, max_abs, worst_kl
from edgegpt_export.task_accuracy import task_accuracy

_SEED: Final = 0  # seed of the tokens; the same file gives the same result
_STEPS: Final = 64  # token by token over this many at the beginning and at the end of the context
_SPARE: Final = 5  # rows of a shared buffer that the prompt does not fill
_BATCH: Final = 3
_BATCH_TOKENS: Final = 8


def verify_file(
    path: str | Path,
    checkpoint: str | Path | Checkpoint,
    on_step: OnStep = lambda _: None,
    data: str | Path | None = None,
) -> Evidence:
    """Repeat the verification of an exported file.

    Args:
        path: the .onnx file.
        checkpoint: the checkpoint that it was exported from, loaded or as a folder.
        on_step: called with a short status message.
        data: JSONL of prompts and completions; the file's answers are then compared with float32's.

    Returns:
        the numbers measured now; `failures` lists those outside their limits.

    Raises:
        VerificationError: the file was exported from another checkpoint.
        ArtifactError: the file is missing, damaged, foreign or of an unknown precision.
        CheckpointError, ConfigError, TokenizerError: the checkpoint is not valid.
        DataError: the data is not valid, or an example does not fit into the context.
    """
    source = "the checkpoint" if isinstance(checkpoint, Checkpoint) else str(checkpoint)
    artifact = open_artifact(path)
    path = artifact.path
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = load_checkpoint(checkpoint)
    _check_origin(artifact, checkpoint, source)
    examples = read_examples(None if data is None else Path(data), checkpoint)
    bits = read_recipe(artifact.recipe, artifact.config, path)
    quantisation = Quantisation(artifact.precision, bits, artifact.kv_cache)
    session, target = artifact.session, artifact.target
    evidence = verify(path, session, checkpoint.model, target, quantisation, on_step)
    if examples is None:
        return evidence
    return evidence.plus(task_accuracy(session, checkpoint, target, quantisation, examples, on_step))


def verify(
    path: Path,
    session: ort.InferenceSession,
    model: GPT,
    target: str,
    quantisation: Quantisation,
    on_step: OnStep = lambda _: None,
) -> Evidence:
    """Compare a file, open as `session`, with a PyTorch model, whose train/eval modes do not change."""
    limits = quantisation.limits
    file = _File(session, model, target)
    contents = onnx.load(str(path), load_external_data=False)
    tokens = np.random.default_rng(_SEED).integers(
        model.config.vocab_size, size=(_BATCH, model.config.block_size)
    )
    ids = tokens[:1]
    expected = expected_weight_bytes(model.config, quantisation.bits, quantisation.kv_cache)
    checks = [
        _weight_bytes(contents, expected),
        _precision(contents, model.config, quantisation),
        _operators(contents, target),
    ]
    del contents
    with eval_mode(model), torch.inference_mode():
        rows, whole = _rows(file, ids, limits, on_step)
    on_step("changing later tokens")
    checks.append(_causality(file, ids, whole, limits))
    on_step("in chunks")
    checks.append(_chunked(file, ids, whole, limits))
    on_step("token by token")
    checks.append(_stepwise(file, ids, whole, limits))
    on_step("in a batch")
    checks.append(_batch(file, tokens, limits))
    return Evidence(target, quantisation.precision, limits, tuple(rows), tuple(checks))


def _check_origin(artifact: Artifact, checkpoint: Checkpoint, source: str) -> None:
    path = artifact.path
    if artifact.weights_sha256 != checkpoint.weights_sha256:
        raise VerificationError(
            f"{path} was exported from another checkpoint than {source}: the sha256 of its weights begins "
            f"{artifact.weights_sha256[:12]}, here it is {checkpoint.weights_sha256[:12]}"
        )
    if artifact.config != checkpoint.config:
        ours = asdict(checkpoint.config)
        differences = [
            f"{key} {value!r}, here {ours[key]!r}"
            for key, value in asdict(artifact.config).items()
            if value != ours[key]
        ]
        raise VerificationError(
            f"{path} was exported with another config than {source}: {'; '.join(differences)}"
        )


class _File:
    """The file under test and the PyTorch model that it is compared with."""

    def __init__(self, session: ort.InferenceSession, model: GPT, target: str) -> None:
        self.session = session
        self.model = model
        self.shared = target == ENGINE

    def cache(self, batch: int, tokens: int) -> GrowingCache | SharedCache:
        """Return an empty cache for `tokens` tokens, of the kind that this target runs with."""
        if self.shared:
            return SharedCache(self.session, self.model.config, batch, tokens + _SPARE)
        return GrowingCache(self.session, self.model.config, batch)

    def prefill(self, ids: Ids) -> Logits:
        """Run a prompt (1, L) whole and without a past -> (L, V)."""
        logits: Logits = GrowingCache(self.session, self.model.config, batch=1).feed(ids)[0]
        return logits


def _rows(file: _File, ids: Ids, limits: Limits, on_step: OnStep) -> tuple[list[ParityRow], Logits]:
    """Compare PyTorch with the file at each length; return the file's logits of the longest too."""
    rows = []
    logits = np.empty((0, 0), np.float32)
    for length in _lengths(ids.shape[1]):
        on_step(f"length {length}")
        prompt = ids[:, :length]
        logits = file.prefill(prompt)
        rows.append(compare(file.model(torch.from_numpy(prompt))[0].numpy(), logits, tie=limits.tie))
    return rows, logits


def _lengths(block_size: int) -> list[int]:
    return sorted({min(max(length, 1), block_size) for length in (1, 2, 7, block_size - 1, block_size)})


def _causality(file: _File, ids: Ids, whole: Logits, limits: Limits) -> CheckResult:
    """Change every token of the second half; the first half's logits must not move."""
    half = ids.shape[1] // 2
    changed = ids.copy()
    changed[:, half:] = (changed[:, half:] + 1) % whole.shape[-1]
    moved = max_abs(file.prefill(changed)[:half], whole[:half])
    return CheckResult(
        "causality", moved, limits.causality, "change of earlier logits when later tokens are changed"
    )


def _chunked(file: _File, ids: Ids, whole: Logits, limits: Limits) -> CheckResult:
    """Read the prompt in four uneven chunks, the first of one token."""
    length = ids.shape[1]
    cuts = sorted({0, 1, min(8, length), length // 2, length})
    cache = file.cache(1, length)
    return _same(
        "chunked = whole",
        "the whole prompt",
        limits,
        ((whole[a:b], cache.feed(ids[:, a:b])[0]) for a, b in pairwise(cuts)),
    )


def _stepwise(file: _File, ids: Ids, whole: Logits, limits: Limits) -> CheckResult:
    """Read the prompt token by token: from an empty cache, and up to the last position of the context."""
    length = ids.shape[1]
    start_cache = file.cache(1, length)
    steps = [_steps(start_cache, ids, whole, 0, min(_STEPS, length))]
    if length > _STEPS:
        end_cache = file.cache(1, length)
        start = length - _STEPS
        end_cache.feed(ids[:, :start])
        steps.append(_steps(end_cache, ids, whole, start, length))
    return _same("stepwise = whole", "the whole prompt", limits, chain.from_iterable(steps))


def _steps(
    cache: GrowingCache | SharedCache, ids: Ids, whole: Logits, start: int, stop: int
) -> Iterator[tuple[Logits, Logits]]:
    return ((whole[i : i + 1], cache.feed(ids[:, i : i + 1])[0]) for i in range(start, stop))


def _batch(file: _File, tokens: Ids, limits: Limits) -> CheckResult:
    """Run a batch without a past, then one more token, and compare with its rows one by one."""
    length = min(_BATCH_TOKENS, tokens.shape[1])
    cuts = sorted({0, max(length - 1, 1), length})
    together, alone = file.cache(_BATCH, length), [file.cache(1, length) for _ in range(_BATCH)]
    pairs = []
    for a, b in pairwise(cuts):
        logits = together.feed(tokens[:, a:b])  # (B, T, V)
        pairs += [(alone[i].feed(tokens[i : i + 1, a:b])[0], logits[i]) for i in range(_BATCH)]
    return _same("batch = singles", "one row alone", limits, pairs)


def _same(name: str, other: str, limits: Limits, pairs: Iterable[tuple[Logits, Logits]]) -> CheckResult:
    """Compare logits (L, V) of two ways through the file, as its precision asks."""
    measure, what = (worst_kl, "KL divergence") if limits.by_kl else (max_abs, "difference")
    worst = float(np.max([measure(*pair) for pair in pairs]))  # keeps NaN, unlike max()
    return CheckResult(name, worst, limits.consistency, f"{what} from the logits of {other}")


def _weight_bytes(contents: onnx.ModelProto, expected: int) -> CheckResult:
    found = weight_bytes(contents)
    what = f"difference of {found:,} bytes in the file and {expected:,} by the config"
    return CheckResult("weight bytes", abs(found - expected), 0, what)


def _precision(contents: onnx.ModelProto, config: ModelConfig, quantisation: Quantisation) -> CheckResult:
    wrong = misnamed_matrices(contents, config, quantisation)
    more = f"; and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    what = f"number of matrices whose bits differ from the metadata ({(wrong or ['none'])[0]}{more})"
    return CheckResult("precision", len(wrong), 0, what)


def _operators(contents: onnx.ModelProto, target: str) -> CheckResult:
    names = unwanted_operators(contents, target)
    what = f"number of operators that are not of the {target} target ({', '.join(names) or 'none'})"
    return CheckResult("operators", len(names), 0, what)
