"""Which of two models is expected to be stronger after training. Sources of each number are beside it.

    loss = (8.8e13 / N) ** 0.076 * shape + precision          nats a token, to compare, not to believe

N counts the parameters of the blocks, without embeddings (Kaplan et al., "Scaling Laws for Neural
Language Models", 2020, equation 1.1: enough data, trained to convergence; 768 to 1.5e9 parameters). The
law was fitted to English web text; another text moves all losses, but hardly their order.
"""

import math
from collections.abc import Sequence
from typing import Final

from edgegpt.config import ModelConfig

_N_C, _ALPHA = 8.8e13, 0.076

# Kaplan et al. 2020, section 3.1: 6 layers of 4288 lose 3 % against 48 of 1600, and between them little
# changes. The best ratio of width to depth is taken from there (33), near what Liu et al., "MobileLLM"
# (2024), chose for small models after trying: 30 x 576 (19) at 125 M, 32 x 960 (30) at 350 M. Between
# the two points a parabola over the logarithm of the ratio.
_BEST_RATIO: Final = 1600 / 48
_BAD_RATIO: Final = 4288 / 6
_BAD_LOSS: Final = 0.03

# KL of a file against PyTorch, which is what quantisation adds to the loss in the mean: measured by
# `edgegpt export` on rover, contexts of 320 tokens, 2026-11-30. For comparison llama.cpp's Q4_0 adds
# ln(3.5550 / 3.4313) = 0.035 nats to Llama 2 70B (its README's perplexities).
PRECISION_NATS: Final = {"fp32": 0.0, "int8": 0.001, "int4": 0.047}

# Tao et al., "Scaling Laws with Vocabulary" (2024): vocabulary parameters grow as the power 0.83 of the
# others, and 3e9 others want 43,000 tokens (of width 3200). How much another size costs is not
# known for models this small, so sizes within a factor of two are all right and no others.
_VOCABULARY_POWER: Final = 0.83
_KNOWN_OTHERS, _KNOWN_VOCABULARY = 3.0e9, 43_000 * 3200
_FACTOR: Final = 2.0

# Hoffmann et al., "Training Compute-Optimal Large Language Models" (2022): about 20 tokens a parameter.
TOKENS_PER_PARAMETER: Final = 20


def block_parameters(config: ModelConfig) -> int:
    """12 d^2 + 10 d a layer, 3 d more with a Q/K/V bias (Radford et al. 2019); no norm at the end."""
    d = config.n_embd
    return config.n_layer * (12 * d * d + (13 if config.qkv_bias else 10) * d)


def expected_loss(config: ModelConfig, precision: str) -> float:
    """Nats a token, lower is stronger."""
    off = math.log(config.n_embd / config.n_layer / _BEST_RATIO) / math.log(_BAD_RATIO / _BEST_RATIO)
    shape = 1 + _BAD_LOSS * off**2
    return float((_N_C / block_parameters(config)) ** _ALPHA) * shape + PRECISION_NATS[precision]


def right_vocabularies(blocks: int, n_embd: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """Those of `sizes` that suit so many parameters in the blocks; at least the nearest one."""
    wanted = _KNOWN_VOCABULARY * (blocks / _KNOWN_OTHERS) ** _VOCABULARY_POWER / n_embd
    near = min(sizes, key=lambda size: (abs(math.log(size / wanted)), size))  # the smaller of two
    right = {size for size in sizes if wanted / _FACTOR <= size <= wanted * _FACTOR}
    return tuple(sorted(right | {near}))
