"""What a budget asks for, held against the file before a minute of measuring instead of after it."""

from contextlib import suppress
from pathlib import Path

from edgegpt.budget.budget import Budget
from edgegpt.config.model import ModelConfig
from edgegpt.errors import DataError, MeasureError
from edgegpt.examples import Pair, fitting_pairs, numbered_pairs, read_text
from edgegpt.files import is_stream
from edgegpt.tokenizer import Tokenizer


def check_fit(budget: Budget, path: Path, config: ModelConfig, tokenizer: Tokenizer) -> list[Pair]:
    """The budget's examples; none where it has no accuracy.

    Args:
        budget: the limits.
        path: of the model's file, for messages.
        config: of the model.
        tokenizer: of the model.

    Raises:
        MeasureError: its prompt leaves no room for an answer.
        DataError: its examples are not valid, or one does not fit into the context.
    """
    longest = config.block_size - 1
    if budget.ttft_ms is not None and budget.ttft_ms.prompt_tokens > longest:
        raise MeasureError(
            f"ttft_ms.prompt_tokens must be from 1 to {longest} for {path}, whose context holds "
            f"{config.block_size} tokens, got {budget.ttft_ms.prompt_tokens}"
        )
    if budget.accuracy is None:
        return []
    data = Path(budget.accuracy.path)
    with suppress(OSError, ValueError):  # whoever reads it says so
        if is_stream(data):
            raise DataError(f"{data} is a pipe or a device, expected a .jsonl file; save it as a file")
    return fitting_pairs(numbered_pairs(read_text(data), str(data)), str(data), config, tokenizer)
