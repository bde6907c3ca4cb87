"""Define the space of models that a plan searches."""

from dataclasses import dataclass
from itertools import product
from typing import Final

from edgegpt.accounting import account
from edgegpt.config import ModelConfig
from edgegpt.errors import ConfigError
from edgegpt.planner.scaling import block_parameters, right_vocabularies
from edgegpt.quantization import PRECISIONS
from edgegpt.tokenizer import MIN_VOCAB_SIZE

LONGEST: Final = 16_384  # tokens of a context
# Parameters of the models that edgegpt is for: fewer give no language model, more are too slow on a board.
FEWEST, MOST = 500_000, 150_000_000


@dataclass(frozen=True)
class Candidate:
    """A model and its precision, with the figures that are counted once."""

    config: ModelConfig
    precision: str
    parameters: int
    weight_bytes: int


@dataclass(frozen=True)
class Space:
    """Dimensions that are varied. All models have a tied head: at 125 M it costs 0.2 points of accuracy and
    saves 12 % of the parameters, and more layers regain it (Liu et al., "MobileLLM", 2024).

    Attributes:
        layers: n_layer.
        widths: n_embd.
        head_dims: head widths; n_embd gets the largest that divides it. Fewer heads cost less or the same in
            every figure and have the same expected loss.
        vocabularies: sizes from which `scaling.right_vocabularies` selects; a single size is used as it is.
        contexts: block_size.
        precisions: precisions of the weights.
        parameters: minimum and maximum.
    """

    layers: tuple[int, ...] = tuple(range(1, 33))
    widths: tuple[int, ...] = tuple(range(64, 1025, 32))
    head_dims: tuple[int, ...] = (32, 64)
    vocabularies: tuple[int, ...] = (512, 1024, 2048, 4096, 8192, 16384, 32768)
    contexts: tuple[int, ...] = (256, 512, 1024)
    precisions: tuple[str, ...] = PRECISIONS
    parameters: tuple[int, int] = (FEWEST, MOST)

    def shapes(self) -> list[tuple[int, int]]:
        """Return every n_layer with every n_embd in a fixed order; a search is split into ranges of these."""
        return list(product(self.layers, self.widths))

    def candidates(self, n_layer: int, n_embd: int) -> list[Candidate]:
        """Return all models of one shape in a fixed order."""
        fitting = [head_dim for head_dim in self.head_dims if n_embd % head_dim == 0]
        if not fitting:
            return []
        found = []
        for vocab_size, context in product(self._vocabularies(n_layer, n_embd), self.contexts):
            config = ModelConfig(
                vocab_size=vocab_size,
                block_size=context,
                n_layer=n_layer,
                n_head=n_embd // max(fitting),
                n_embd=n_embd,
                tie_embeddings=True,
            )
            total = account(config).total
            if self.parameters[0] <= total.parameters <= self.parameters[1]:
                found += [
                    Candidate(config, precision, total.parameters, getattr(total.weight_bytes, precision))
                    for precision in self.precisions
                ]
        return found

    def _vocabularies(self, n_layer: int, n_embd: int) -> tuple[int, ...]:
        least = ModelConfig(vocab_size=1, block_size=1, n_layer=n_layer, n_head=1, n_embd=n_embd)
        return right_vocabularies(block_parameters(least), n_embd, self.vocabularies)


def space_of(
    *, context: int, prompt_tokens: int, vocab_size: int | None = None, precision: str | None = None
) -> Space:
    """Return the default space with the user's choices.

    Args:
        context: minimum; twice and four times that are tried too.
        prompt_tokens: prompt length of the budget's ttft_ms.
        vocab_size: fixed to the size of an existing tokenizer.
        precision: fixed precision of the weights.

    Raises:
        ConfigError: a number is out of its range, or the precision is unknown.
    """
    if not prompt_tokens < context <= LONGEST:
        raise ConfigError(
            f"the context must be above the {prompt_tokens} tokens of the budget's prompt and at most "
            f"{LONGEST}, got {context}"
        )
    if vocab_size is not None and not MIN_VOCAB_SIZE <= vocab_size <= 2**18:
        raise ConfigError(f"vocab_size must be within {MIN_VOCAB_SIZE} and {2**18}, got {vocab_size}")
    if precision is not None and precision not in PRECISIONS:
        raise ConfigError(
            f"precision must be {', '.join(PRECISIONS[:-1])} or {PRECISIONS[-1]}, got {precision!r}"
        )
    usual = Space()
    return Space(
        contexts=tuple(n for n in (context, 2 * context, 4 * context) if n <= LONGEST),
        vocabularies=usual.vocabularies if vocab_size is None else (vocab_size,),
        precisions=usual.precisions if precision is None else (precision,),
    )
