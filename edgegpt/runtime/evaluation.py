"""Exact match and loss of a file on a set of examples."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from edgegpt.errors import DataError, PromptError
from edgegpt.examples import Pair
from edgegpt.runtime.generator import TextGenerator


@dataclass(frozen=True)
class Miss:
    """An answer that differs from the expected one."""

    prompt: str
    expected: str
    answer: str


@dataclass(frozen=True)
class Evaluation:
    """Exact match and loss on a set of examples.

    Attributes:
        examples: number of examples.
        exact_match: share of answers equal to the completion, greedy, ended by the model itself.
        loss: mean over all completion tokens, the end included, of -ln p, in nats.
        misses: the answers that differ from the completion.
    """

    examples: int
    exact_match: float
    loss: float
    misses: tuple[Miss, ...]


def evaluate(generator: TextGenerator, pairs: Iterable[Pair]) -> Evaluation:
    """Answer every prompt greedily and score every completion.

    Raises:
        DataError: there are no examples, or one does not fit into the context.
    """
    misses = []
    number, loss, tokens = 0, 0.0, 0
    for number, pair in enumerate(pairs, start=1):
        try:
            losses, answer = _completion_losses(generator, pair), _answer(generator, pair)
        except PromptError as e:
            raise DataError(f"example {number} ({pair.prompt[:40]!r}) cannot be evaluated: {e}") from e
        loss += sum(losses)
        tokens += len(losses)
        if answer != pair.completion:
            misses.append(Miss(pair.prompt, pair.completion, answer))
    if not number:
        raise DataError("there are no examples to evaluate")
    return Evaluation(number, 1 - len(misses) / number, loss / tokens, tuple(misses))


def _completion_losses(generator: TextGenerator, pair: Pair) -> list[float]:
    tokenizer = generator.tokenizer
    prompt = tokenizer.encode_prompt(pair.prompt)
    completion = [*tokenizer.encode(pair.completion), tokenizer.eos_id]
    # The last token is only predicted, never read.
    losses: list[float] = generator.engine.token_losses([*prompt, *completion]).tolist()
    return losses[len(prompt) - 1 :]


def _answer(generator: TextGenerator, pair: Pair) -> str:
    """Return the greedy answer, with an ellipsis if it is longer than the expected one."""
    length = len(generator.tokenizer.encode(pair.completion)) + 1
    params = replace(generator.sampling, temperature=0.0, max_new_tokens=length, deadline_ms=None)
    reply = generator.generate(pair.prompt, params)
    return reply.text if reply.finish_reason in ("eos", "stop") else reply.text + "…"
