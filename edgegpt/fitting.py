"""Examples that fit into a model's context, each looked at before any work."""

from collections.abc import Iterable

from edgegpt.config.model import ModelConfig
from edgegpt.errors import DataError
from edgegpt.examples import Pair
from edgegpt.tokenizer import Tokenizer


def fitting_pairs(
    numbered: Iterable[tuple[int, Pair]], source: str, config: ModelConfig, tokenizer: Tokenizer
) -> list[Pair]:
    """All pairs, in order.

    Args:
        numbered: pairs, each with the number of its line.
        source: that they are from, for messages.
        config: whose context has to hold prompt and completion.
        tokenizer: of the model.

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
