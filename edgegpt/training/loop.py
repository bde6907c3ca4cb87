"""The training loop: AdamW, warm-up and cosine decay, clipping, validation, and a state to resume from."""

import logging
import math
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor
from torch.nn import functional as F

from edgegpt.config import ModelConfig
from edgegpt.errors import TrainingError
from edgegpt.examples import Pair
from edgegpt.files import atomic_write
from edgegpt.model import GPT, WEIGHTS, load_checkpoint, save_checkpoint
from edgegpt.tokenizer import Tokenizer
from edgegpt.training.config import RunConfig
from edgegpt.training.dataset import IGNORE, Dataset, Example, Ints, batches, collate, encode, read_examples

logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # its info lines are not for users

STATE: Final = "training_state.ckpt"
_DTYPES: Final = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
_VALIDATION_TOKENS: Final = 16_384  # a batch without gradients may be larger


@dataclass(frozen=True)
class Validation:
    """Result of one validation set: loss in nats per completion token, and share of exact answers."""

    loss: float
    exact_match: float


@dataclass(frozen=True)
class TrainingProgress:
    """State of a run after one step; `validations` is empty unless one was due."""

    step: int
    steps: int
    loss: float
    learning_rate: float
    tokens_per_second: float
    validations: dict[str, Validation]


def train(
    run: RunConfig,
    folder: Path,
    *,
    resume: bool = False,
    on_progress: Callable[[TrainingProgress], None] = lambda _: None,
    on_stage: Callable[[str], None] = lambda _: None,
) -> Path:
    """Train one model and return its checkpoint folder; paths in `run` are relative to `folder`.

    After Ctrl-C the current step is completed, the state saved and KeyboardInterrupt raised; `resume`
    continues from there.

    Raises:
        DataError: examples cannot be read or generated.
        TrainingError: the folder holds a model already, or an unfinished run and `resume` is False;
            `resume` is True and it holds none, or one of another run file; an example is too long; the
            loss is NaN or infinite; the folder or the state cannot be written.
        CheckpointError, ConfigError, TokenizerError: start_from is not a valid checkpoint, model is not the
            path of a valid config, the generator does not exist, or the checkpoint cannot be written.
    """
    out = folder / run.out
    state_path = out / STATE
    run = run.with_model(folder)  # the state records the shape itself
    _check_state(state_path, resume)
    if run.threads:
        torch.set_num_threads(run.threads)
    precision: Any = "bf16-mixed" if run.precision == "bf16" else "32-true"
    fabric = Fabric(accelerator="auto", devices=1, precision=precision)
    torch.manual_seed(run.seed)

    _check_writable(out)
    on_stage("reading examples")
    path = run.generator_path
    train_examples = [example for source in run.train for example in read_examples(source, folder, path)]
    validation_examples = {
        name: read_examples(source, folder, path) for name, source in run.validation.items()
    }
    on_stage("preparing tokenizer and weights")
    gpt, tokenizer = _model_and_tokenizer(run, folder, train_examples)
    on_stage("encoding examples")
    block_size = gpt.config.block_size
    dataset = encode(train_examples, tokenizer, block_size)
    validations = {name: encode(pairs, tokenizer, block_size) for name, pairs in validation_examples.items()}

    model, optimizer = fabric.setup(gpt, _optimizer(gpt, run))
    state: dict[str, Any] = {
        "model": model,
        "optimizer": optimizer,
        "step": 0,
        "run": run.model_dump(mode="json"),
    }
    if resume:
        _resume(fabric, state_path, state)
    on_stage("training")
    with deferred_interrupt() as interrupted:
        for progress in _steps(run, fabric, state, dataset, validations):
            on_progress(progress)
            if progress.step == run.steps:
                break  # an interrupt this late changes nothing: the checkpoint is next
            if _validation_is_due(run, progress.step) or interrupted.is_set():
                _save_state(fabric, state_path, state)
            if interrupted.is_set():
                raise KeyboardInterrupt
    save_checkpoint(out, gpt, tokenizer, _DTYPES[run.stored_weights])
    state_path.unlink(missing_ok=True)
    return out


def _model_and_tokenizer(run: RunConfig, folder: Path, examples: Sequence[Example]) -> tuple[GPT, Tokenizer]:
    """Return the model and the tokenizer at the start of a run."""
    if run.start_from is not None:
        checkpoint = load_checkpoint(folder / run.start_from)
        checkpoint.model.gradient_checkpointing = run.gradient_checkpointing
        return checkpoint.model, checkpoint.tokenizer
    assert isinstance(run.model, ModelConfig)  # RunConfig has one of the two, with_model reads a path
    tokenizer = Tokenizer.train(
        _texts(examples),
        run.model.vocab_size,
        split=run.tokenizer_split or "gpt2",
        mark_prompt_end=any(isinstance(example, Pair) for example in examples),
    )
    return GPT(run.model, gradient_checkpointing=run.gradient_checkpointing), tokenizer


def _texts(examples: Sequence[Example]) -> Iterator[str]:
    for example in examples:
        if isinstance(example, str):
            yield example
        else:
            yield from example


def learning_rate(run: RunConfig, step: int) -> float:
    """Return the rate of a step: linear warm-up, then cosine decay to 0 (Loshchilov and Hutter 2017)."""
    if step < run.warmup_steps:
        return run.learning_rate * (step + 1) / run.warmup_steps
    done = (step - run.warmup_steps) / (run.steps - run.warmup_steps)
    return run.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


def _optimizer(model: GPT, run: RunConfig) -> torch.optim.AdamW:
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": run.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=run.learning_rate, betas=(0.9, run.beta2), fused=True)


def _steps(
    run: RunConfig, fabric: Fabric, state: dict[str, Any], dataset: Dataset, validations: dict[str, Dataset]
) -> Iterator[TrainingProgress]:
    model, optimizer = state["model"], state["optimizer"]
    model.train()
    started, tokens = time.perf_counter(), 0
    first = state["step"]
    for examples in islice(batches(dataset.lengths, run.batch_tokens, run.seed), first, run.steps):
        step = state["step"]
        # Each step draws its dropout from its own seed, so that a resumed run draws the same.
        torch.manual_seed(run.seed * 1_000_003 + step)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(run, step)
        inputs, targets = (fabric.to_device(t) for t in collate(dataset, examples))
        loss = _loss(model(inputs), targets)
        if not math.isfinite(value := loss.item()):
            raise TrainingError(
                f"the loss is {value} at step {step}; lower learning_rate, got {run.learning_rate}"
            )
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=run.gradient_clip)
        optimizer.step()
        optimizer.zero_grad()
        state["step"] = step + 1
        tokens += inputs.numel()
        due = _validation_is_due(run, step + 1)
        yield TrainingProgress(
            step=step + 1,
            steps=run.steps,
            loss=value,
            learning_rate=learning_rate(run, step),
            tokens_per_second=tokens / (time.perf_counter() - started),
            validations={name: validate(fabric, model, data) for name, data in validations.items()}
            if due
            else {},
        )


def _validation_is_due(run: RunConfig, step: int) -> bool:
    """Return whether the run validates after this step; it also saves the state, unless it is the last."""
    return step % run.validate_every == 0 or step == run.steps


def _loss(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=IGNORE)


@torch.no_grad()
def validate(fabric: Fabric, model: Any, dataset: Dataset) -> Validation:
    """Compute loss and exact match of one validation set.

    An answer is exact when each of its tokens is the most likely one after the true tokens before it,
    which is the same as greedy decoding giving exactly this answer.
    """
    model.eval()
    loss, count, right = 0.0, 0, 0
    for examples in _in_order(dataset):
        inputs, targets = (fabric.to_device(t) for t in collate(dataset, examples))
        logits = model(inputs)
        counted = targets != IGNORE
        loss += _loss(logits, targets).item() * int(counted.sum())
        count += int(counted.sum())
        right += int(((logits.argmax(-1) == targets) | ~counted).all(dim=1).sum())
    model.train()
    return Validation(loss / count, right / len(dataset))


def _in_order(dataset: Dataset) -> Iterator[Ints]:
    by_length = np.argsort(dataset.lengths, kind="stable")
    size = max(1, _VALIDATION_TOKENS // int(dataset.lengths.max()))
    return (by_length[start : start + size] for start in range(0, len(by_length), size))


def _check_writable(out: Path) -> None:
    """Raise TrainingError before hours of training rather than after them."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except (OSError, ValueError) as e:  # ValueError: a NUL in the name
        raise TrainingError(f"{out} cannot be written: {getattr(e, 'strerror', None) or e}") from e


def _check_state(path: Path, resume: bool) -> None:
    weights = path.with_name(WEIGHTS)
    if weights.exists() and not path.exists():
        raise TrainingError(f"{weights} exists already; a run never replaces a model, move it or change out")
    if resume and not path.is_file():
        raise TrainingError(f"no unfinished run to resume: {path} does not exist")
    if not resume and path.is_file():
        raise TrainingError(f"{path} is an unfinished run; continue it with --resume or delete the file")


def _resume(fabric: Fabric, path: Path, state: dict[str, Any]) -> None:
    try:
        saved = fabric.load(path)["run"]
        different = [key for key, value in state["run"].items() if saved.get(key) != value]
        if not different:
            fabric.load(path, state)
    except Exception as e:  # torch's reader raises many kinds for a damaged file
        cause = f"{type(e).__name__}: {e}".splitlines()[0]
        raise TrainingError(f"{path} cannot be resumed, delete it to start again ({cause})") from e
    if different:
        raise TrainingError(
            f"{path} belongs to a run with other values of {', '.join(different)}; delete it to start again"
        )


def _save_state(fabric: Fabric, path: Path, state: dict[str, Any]) -> None:
    try:
        with atomic_write(path) as temporary:
            fabric.save(os.fspath(temporary), state)
    except (OSError, RuntimeError) as e:  # torch's writer raises RuntimeError when the disk is full
        raise TrainingError(f"{path} cannot be saved: {getattr(e, 'strerror', None) or e}") from e


@contextmanager
def deferred_interrupt() -> Iterator[threading.Event]:
    """Yield an event that the first SIGINT sets instead of raising; a second one raises as usual.

    The event is never set outside the main thread, where Python handles no signals.
    """
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return

    def defer(*_: object) -> None:
        interrupted.set()
        signal.signal(signal.SIGINT, previous)

    previous = signal.signal(signal.SIGINT, defer)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, previous)
