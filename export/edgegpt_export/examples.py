"""A user's examples, read once and held against the context before any work."""

from dataclasses import dataclass
from pathlib import Path

from edgegpt.checkpoint import Checkpoint
from edgegpt.errors import DataError
from edgegpt.pairs import Pair, numbered_pairs, read_text


@dataclass(frozen=True)
class Examples:
    """Pairs that fit into the context, and the name of the file that they are from."""

    name: str
    pairs: list[Pair]


def read_examples(data: Path | None, checkpoint: Checkpoint) -> Examples | None:
    """The prompts and completions of a JSONL file; None without one.

    Raises:
        DataError: the file is not valid, or an example does not fit into the context.
    """
    if data is None:
        return None
    tokenizer, context = checkpoint.tokenizer, checkpoint.config.block_size
    pairs = []
    for number, pair in numbered_pairs(read_text(data), str(data)):
        prompt, completion = len(tokenizer.encode_prompt(pair.prompt)), len(tokenizer.encode(pair.completion))
        if prompt + completion > context:  # the end that follows is predicted and not read
            raise DataError(
                f"{data}, line {number}: the prompt has {prompt} tokens and the completion {completion}, "
                f"together {prompt + completion}, but the context holds {context}; shorten it or leave it out"
            )
        pairs.append(pair)
    if not pairs:
        raise DataError(f"{data} holds no examples")
    return Examples(data.name, pairs)
