"""Read prompt/completion pairs as JSONL, and check that they fit into a model's context."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from edgegpt.config import ModelConfig
from edgegpt.errors import DataError
from edgegpt.tokenizer import Tokenizer


class Pair(NamedTuple):
    """One example; neither text is empty."""

    prompt: str
    completion: str


def read_text(path: Path) -> str:
    """Read a UTF-8 file; raises DataError naming it."""
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors put a byte order mark first
    except UnicodeDecodeError as e:
        raise DataError(f"{path} is not a text file in UTF-8: {e.reason} at byte {e.start}") from e
    except FileNotFoundError as e:
        raise DataError(f"{path} does not exist; expected a file of examples or text") from e
    except (OSError, ValueError) as e:  # ValueError: a NUL in the name
        raise DataError(f"{path} cannot be read: {getattr(e, 'strerror', None) or e}") from e


def read_jsonl(path: Path) -> list[Pair]:
    """Read every pair of a file; raises DataError for one that is missing, empty or not pairs."""
    pairs = list(parse_jsonl(read_text(path), str(path)))
    if not pairs:
        raise DataError(f"{path} holds no examples")
    return pairs


def parse_jsonl(text: str, source: str) -> Iterator[Pair]:
    """Parse lines of {"prompt", "completion"}; raises DataError naming `source` and the line."""
    return (pair for _, pair in numbered_pairs(text, source))


def numbered_pairs(text: str, source: str) -> Iterator[tuple[int, Pair]]:
    """Parse as `parse_jsonl`, and give each pair the number of its line from 1."""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            pair = Pair(row["prompt"], row["completion"])
        except (ValueError, TypeError, KeyError, RecursionError) as e:
            raise _bad_line(source, number, line) from e
        if not (isinstance(pair.prompt, str) and isinstance(pair.completion, str)):
            raise _bad_line(source, number, line)
        if fault := fault_of(pair):
            raise DataError(f"{source}, line {number}: {fault}, got {line[:80]!r}")
        yield number, pair


def fault_of(pair: Pair) -> str:
    """Return why a pair of strings is not an example, or "" where it is one."""
    try:
        "".join(pair).encode()
    except UnicodeEncodeError:
        return "a lone surrogate is not a character"
    if not (pair.prompt.strip() and pair.completion):
        return "prompt and completion must not be empty"
    return ""


def _bad_line(source: str, number: int, line: str) -> DataError:
    expected = '{"prompt": "...", "completion": "..."}'
    return DataError(f"{source}, line {number}: expected {expected}, got {line[:80]!r}")


def fitting_pairs(
    numbered: Iterable[tuple[int, Pair]], source: str, config: ModelConfig, tokenizer: Tokenizer
) -> list[Pair]:
    """Return all pairs, in order, after checking that each fits.

    Args:
        numbered: pairs, each with the number of its line.
        source: name of their file, for messages.
        config: the model's config; its context has to hold prompt and completion.
        tokenizer: the model's tokenizer.

    Raises:
        DataError: there are none, or one does not fit into the context.
    """
    context, pairs = config.block_size, []
    for number, pair in numbered:
        prompt, completion = len(tokenizer.encode_prompt(pair.prompt)), len(tokenizer.encode(pair.completion))
        if prompt + completion > context:  # the end that follows is predicted and not read
            raise DataError(
                f"{source}, line {number}: the prompt has {prompt} tokens and the completion {completion}, "
                f"together {prompt + completion}, but the context holds {context}; shorten it or leave it out"
            )
        pairs.append(pair)
    if not pairs:
        raise DataError(f"{source} holds no examples")
    return pairs
