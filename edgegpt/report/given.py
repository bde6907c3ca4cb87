"""What is given beside the model, a budget and a profile: read once, and hashed as it was read."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from edgegpt.artifact import Artifact
from edgegpt.budget import Accuracy, Budget
from edgegpt.errors import DataError, MeasureError
from edgegpt.pairs import read_jsonl
from edgegpt.target import Target
from edgegpt.yaml_file import read_bytes
from edgegpt.yaml_model import parse_model

Content = TypeVar("Content", Budget, Target)


@dataclass(frozen=True)
class Given(Generic[Content]):
    """A YAML file.

    Attributes:
        content: what it says.
        sha256: of the very bytes that say so, which a second look might not find again.
    """

    content: Content
    sha256: str


def read_budget(path: Path) -> Given[Budget]:
    """Read a budget file; raises ConfigError."""
    content = read_bytes(path)
    return Given(Budget.parse(content, path), hashlib.sha256(content).hexdigest())


def read_target(path: Path) -> Given[Target]:
    """Read a target file; raises ConfigError."""
    content = read_bytes(path)
    return Given(parse_model(content, path, Target), hashlib.sha256(content).hexdigest())


def check_fit(budget: Budget, artifact: Artifact) -> None:
    """Hold what a budget asks for against the file, before a minute of measuring instead of after it.

    Raises:
        MeasureError: its prompt leaves no room for an answer.
        DataError: its examples are not valid, or one does not fit into the context.
    """
    context = artifact.config.block_size
    if budget.ttft_ms is not None and budget.ttft_ms.prompt_tokens >= context:
        raise MeasureError(
            f"ttft_ms.prompt_tokens must be from 1 to {context - 1} for {artifact.path}, whose context holds "
            f"{context} tokens, got {budget.ttft_ms.prompt_tokens}"
        )
    if budget.accuracy is not None:
        _check_examples(budget.accuracy, artifact)


def _check_examples(accuracy: Accuracy, artifact: Artifact) -> None:
    context, tokenizer = artifact.config.block_size, artifact.tokenizer
    for number, pair in enumerate(read_jsonl(Path(accuracy.path)), start=1):
        # The end that follows a completion is predicted and not read.
        tokens = len(tokenizer.encode_prompt(pair.prompt)) + len(tokenizer.encode(pair.completion))
        if tokens > context:
            raise DataError(
                f"example {number} ({pair.prompt[:40]!r}) of {accuracy.path} has {tokens} tokens with its "
                f"completion, the context of {artifact.path} holds {context}"
            )
