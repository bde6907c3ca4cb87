"""Encode examples as token ids, and cut them into batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgegpt.errors import DataError, TrainingError
from edgegpt.examples import Pair, read_jsonl, read_text
from edgegpt.tokenizer import Tokenizer
from edgegpt.training.config import Source
from edgegpt.training.generators import generate_pairs

IGNORE: Final = -100  # target that the loss skips, torch's default
_POOL: Final = 8192  # number of examples sorted by length together
# Widths of batches are multiples of this: CPU libraries prepare kernels for each new shape, and few
# shapes cost less time and memory than a little more padding.
_WIDTH: Final = 8

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Dataset:
    """Encoded examples in one array.

    Attributes:
        ids: all examples, one after another; `ids[offsets[i]:offsets[i + 1]]` is example i.
        offsets: (n + 1,) starts of the examples, and the end of the last.
        prompts: (n,) number of ids of each example's prompt.
    """

    ids: NDArray[np.uint16] | NDArray[np.int32]
    offsets: Ints
    prompts: Ints

    def __len__(self) -> int:
        return len(self.prompts)

    @cached_property
    def lengths(self) -> Ints:
        """Number of tokens of each example (n,)."""
        lengths: Ints = np.diff(self.offsets)
        return lengths


Example = Pair | str  # a str is plain text


def read_examples(source: Source, folder: Path, generator_path: str = ".") -> Sequence[Example]:
    """Read or generate the examples of one source; paths are relative to `folder`.

    Raises:
        DataError: the file is missing or empty, or a line is not {"prompt": str, "completion": str}; the
            generator fails, or yields too few examples or something other than pairs.
        ConfigError: the generator does not exist.
    """
    if source.generator is not None:
        return generate_pairs(
            source.generator, source.split, source.examples, source.seed, folder / generator_path
        )
    assert source.path is not None  # Source holds one of the two
    path = folder / source.path
    if path.suffix == ".jsonl":
        return read_jsonl(path)
    if not (text := read_text(path)):
        raise DataError(f"{path} is empty")
    return [text]


def encode(examples: Sequence[Example], tokenizer: Tokenizer, block_size: int) -> Dataset:
    """Encode pairs as prompt, completion, end of text; cut plain text into windows of block_size.

    Raises:
        TrainingError: a pair is longer than block_size.
    """
    rows: list[list[int]] = []
    prompts: list[int] = []
    for example in examples:
        if isinstance(example, str):
            windows = list(_windows([*tokenizer.encode(example), tokenizer.eos_id], block_size))
            rows.extend(windows)
            prompts.extend(1 for _ in windows)
            continue
        prompt = tokenizer.encode_prompt(example.prompt)
        ids = [*prompt, *tokenizer.encode(example.completion), tokenizer.eos_id]
        if len(ids) > block_size:
            raise TrainingError(
                f"an example has {len(ids)} tokens but block_size is {block_size}: {example.prompt[:60]!r}"
            )
        rows.append(ids)
        prompts.append(len(prompt))
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    flat = np.concatenate([np.asarray(row, dtype=np.int32) for row in rows])
    dtype = np.uint16 if tokenizer.vocab_size <= 2**16 else np.int32
    return Dataset(flat.astype(dtype), offsets, np.asarray(prompts, dtype=np.int64))


def _windows(ids: list[int], block_size: int) -> Iterator[list[int]]:
    """Cut ids into windows of block_size inputs; the last id of each is a target only and starts the next."""
    for start in range(0, len(ids) - 1, block_size):
        yield ids[start : start + block_size + 1]


def batches(lengths: Ints, batch_tokens: int, seed: int) -> Iterator[Ints]:
    """Yield batches of example numbers without end, epoch after epoch, each epoch in a new order.

    A batch holds examples of similar length, so that it needs little padding; as many as fit into
    batch_tokens, at least one.
    """
    for epoch in range(2**31):
        rng = np.random.default_rng((seed, epoch))
        order = rng.permutation(len(lengths))
        cut: list[Ints] = []
        for start in range(0, len(order), _POOL):
            pool = order[start : start + _POOL]
            cut.extend(_cut(pool[np.argsort(lengths[pool], kind="stable")], lengths, batch_tokens))
        for index in rng.permutation(len(cut)):
            yield cut[index]


def _cut(by_length: Ints, lengths: Ints, batch_tokens: int) -> Iterator[Ints]:
    """Cut examples sorted by length into batches of at most batch_tokens padded tokens."""
    start = 0
    for end in range(1, len(by_length) + 1):
        if end == len(by_length) or (end + 1 - start) * _width(lengths[by_length[end]]) > batch_tokens:
            yield by_length[start:end]
            start = end


def _width(length: int) -> int:
    """Return the number of inputs of an example of `length` tokens, one less, rounded up to _WIDTH."""
    return -(-(length - 1) // _WIDTH) * _WIDTH


def collate(dataset: Dataset, examples: Ints) -> tuple[Tensor, Tensor]:
    """Return inputs and targets (B, T), int64; targets are IGNORE in the prompt and in padding."""
    longest = int(dataset.lengths.max()) - 1
    width = min(_width(int(dataset.lengths[examples].max())), longest)
    inputs = np.zeros((len(examples), width), dtype=np.int64)
    targets = np.full((len(examples), width), IGNORE, dtype=np.int64)
    for row, example in enumerate(examples):
        ids = dataset.ids[dataset.offsets[example] : dataset.offsets[example + 1]]
        prompt = dataset.prompts[example]
        inputs[row, : len(ids) - 1] = ids[:-1]
        targets[row, prompt - 1 : len(ids) - 1] = ids[prompt:]
    return torch.from_numpy(inputs), torch.from_numpy(targets)
