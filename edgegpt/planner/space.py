"""The models that are looked at."""

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
# Parameters of the models that edgegpt is for: less is no language model, more is no board's.
FEWEST, MOST = 500_000, 150_000_000


@dataclass(frozen=True)
class Candidate:
    """A model and how its weights are stored; what was counted of it, so that it is counted once."""

    config: ModelConfig
    precision: str
    parameters: int
    weight_bytes: int


@dataclass(frozen=True)
class Space:
    """What is varied. All have a tied head: at 125 M it costs 0.2 points of accuracy and saves 12 % of the
    parameters, which more layers bring back (Liu et al., "MobileLLM", 2024).

    Attributes:
        layers: n_layer.
        widths: n_embd.
        head_dims: a width gets the largest that divides it. Fewer heads cost less or the same in every
            figure, and the rule of strength does not tell them apart, so no other can win.
        vocabularies: sizes of which `scaling.right_vocabularies` picks; a single one is taken as it is.
        contexts: block_size.
        precisions: of the weights.
        parameters: the fewest and the most.
    """

    layers: tuple[int, ...] = tuple(range(1, 33))
    widths: tuple[int, ...] = tuple(range(64, 1025, 32))
    head_dims: tuple[int, ...] = (32, 64)
    vocabularies: tuple[int, ...] = (512, 1024, 2048, 4096, 8192, 16384, 32768)
    contexts: tuple[int, ...] = (256, 512, 1024)
    precisions: tuple[str, ...] = PRECISIONS
    parameters: tuple[int, int] = (FEWEST, MOST)

    def shapes(self) -> list[tuple[int, int]]:
        """Every n_layer with every n_embd, in a fixed order: what a search is cut into ranges of."""
        return list(product(self.layers, self.widths))

    def candidates(self, n_layer: int, n_embd: int) -> list[Candidate]:
        """All models of one shape, in a fixed order."""
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
    """The usual space with what the user has settled.

    Args:
        context: the least that is needed; twice and four times as much are tried too.
        prompt_tokens: that the budget speaks of.
        vocab_size: of a tokenizer that is there already.
        precision: of the weights.

    Raises:
        ConfigError: a number is out of its range, or the precision is none of ours.
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
