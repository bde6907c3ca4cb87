"""A user's examples, read once and held against the context before any work."""

from dataclasses import dataclass
from pathlib import Path

from edgegpt.examples import Pair, fitting_pairs, numbered_pairs, read_text
from edgegpt.model.checkpoint import Checkpoint


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
    numbered = numbered_pairs(read_text(data), str(data))
    return Examples(data.name, fitting_pairs(numbered, str(data), checkpoint.config, checkpoint.tokenizer))
