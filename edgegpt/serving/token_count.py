"""What a prompt would take, without answering it."""

from dataclasses import dataclass
from typing import Final

from edgegpt.errors import PromptError
from edgegpt.runtime.generator import TextGenerator
from edgegpt.runtime.ort_backend import return_free_memory

# A text of more than so many contexts of the longest tokens is not counted: a token takes about 180 bytes
# while it is.
MOST_CONTEXTS: Final = 16


@dataclass(frozen=True)
class TokenCount:
    """Tokens of a prompt and, on an idle engine, the milliseconds its answer would take.

    Attributes:
        tokens: of the prompt alone.
        remaining: of the context for the answer, after the session's turns and the prompt. Below 1 the
            prompt would be refused: it is `1 - remaining` tokens too long.
        predicted_ttft_ms: to read the prompt and choose the first token.
        predicted_token_ms: for each token after the first.
    """

    tokens: int
    remaining: int
    predicted_ttft_ms: float
    predicted_token_ms: float


def count_tokens(generator: TextGenerator, prompt: str, *, taken: int = 0) -> TokenCount:
    """Count a prompt that follows `taken` tokens of a session; it may be up to MOST_CONTEXTS times too long.

    The milliseconds are those by which deadlines are judged: the mean for the first token, a little more
    for those after it; 0 while the model has not run.

    Raises:
        PromptError: the prompt is longer than that.
        TokenizerError: the prompt holds half of a character (a lone surrogate).
    """
    n_bytes, most = len(prompt.encode("utf-8", "replace")), MOST_CONTEXTS * generator.most_bytes
    if n_bytes > most:
        raise PromptError(
            f"the prompt has {n_bytes} bytes and at most {most} are counted, {MOST_CONTEXTS} times what the "
            "context could hold; shorten it"
        )
    tokens = len(generator.tokenizer.encode_prompt(prompt))
    if tokens > generator.engine.capacity:  # far too long, perhaps
        return_free_memory()
    remaining = generator.engine.capacity - taken - tokens
    new = tokens + (taken > 0)  # a session's last token is not in its cache yet
    return TokenCount(tokens, remaining, predicted_ms(generator, new), generator.pace.decode.seconds * 1000)


def predicted_ms(generator: TextGenerator, tokens: int) -> float:
    """Milliseconds to read so many tokens, by what the steps so far took."""
    return generator.pace.prefill(tokens) * 1000
