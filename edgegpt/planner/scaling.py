"""Estimate which of two models is stronger after training; the source of each number is in its comment.

    loss = (8.8e13 / N) ** 0.076 * shape + precision          nats per token, for comparison only

`shape` is 1 at the best ratio of width to depth and larger on both sides of it; too deep is assumed to be as
bad as too wide. N counts the parameters of the blocks, without embeddings (Kaplan et al., "Scaling
Laws for Neural Language Models", 2020, equation 1.1: enough data, trained to convergence; 768 to 1.5e9
parameters). The law was fitted to English web text; another text changes all losses, but hardly their order.
"""

import math
from collections.abc import Sequence
from typing import Final

from edgegpt.config import ModelConfig

_N_C, _ALPHA = 8.8e13, 0.076

# Kaplan et al. 2020, caption of figure 5: 6 layers of 4288 reach a loss within 3 % of GPT-2's 48 of 1600.
# Our assumptions: the second of them is the best, the loss follows a parabola over the logarithm of the
# ratio, and too deep is as bad as too wide. They are mild: within a factor of two of the best they change
# 0.2 %. The models of Liu et al., "MobileLLM" (2024), are near:
# 30 layers of 576 (ratio 19) at 125 M parameters, 32 of 960 (30) at 350 M.
_BEST_RATIO: Final = 1600 / 48
_BAD_RATIO: Final = 4288 / 6
_BAD_LOSS: Final = 0.03

# What quantisation adds to the loss, nats per token, on text that a model was not trained on, 2026-11-30:
#     rover on the completions of checkpoints/rover/validation, 64,740 tokens with a loss of 0.016:
#         int8 0.0000 (95 % of resampled examples: 0.0000 to 0.0001), int4 0.0011 (0.0007 to 0.0015)
#     4 x 192, vocabulary 2048, trained for 389 steps on Python's standard library; on held-out files of it,
#     76,800 tokens with a loss of 4.18:
#         int8 0.0000 (-0.0001 to 0.0001), int4 0.0024 (0.0019 to 0.0028)
# The worst of these is used. Two small models, one nearly certain of every token and one undertrained, are
# weak evidence: a large model that was trained for long loses more, llama.cpp's Q4_0 adds
# ln(3.5550 / 3.4313) = 0.035 nats to Llama 2 70B (its README's perplexities).
PRECISION_NATS: Final = {"fp32": 0.0, "int8": 0.0001, "int4": 0.0028}

# Tao et al., "Scaling Laws with Vocabulary" (2024): vocabulary parameters grow as the power 0.83 of the
# others (0.833 and 0.835 in approach2_derivative.py of github.com/sail-sg/scaling-with-vocab), and models of
# 3e9 parameters need 43,000 tokens (abstract) of width 3200 (utils.py there). The cost of another size is
# unknown for models this small, so sizes within a factor of two are accepted and no others.
_VOCABULARY_POWER: Final = 0.83
_KNOWN_OTHERS, _KNOWN_VOCABULARY = 3.0e9, 43_000 * 3200
_FACTOR: Final = 2.0

# Hoffmann et al., "Training Compute-Optimal Large Language Models" (2022): about 20 tokens per parameter.
TOKENS_PER_PARAMETER: Final = 20


def block_parameters(config: ModelConfig) -> int:
    """Return 12 d^2 + 10 d per layer, 3 d more with a Q/K/V bias (Radford et al. 2019); no final norm."""
    d = config.n_embd
    return config.n_layer * (12 * d * d + (13 if config.qkv_bias else 10) * d)


def expected_loss(config: ModelConfig, precision: str) -> float:
    """Return nats per token; lower is stronger."""
    off = math.log(config.n_embd / config.n_layer / _BEST_RATIO) / math.log(_BAD_RATIO / _BEST_RATIO)
    shape = 1 + _BAD_LOSS * off**2
    return float((_N_C / block_parameters(config)) ** _ALPHA) * shape + PRECISION_NATS[precision]


def right_vocabularies(blocks: int, n_embd: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes that suit this number of parameters in the blocks; at least the nearest one."""
    wanted = _KNOWN_VOCABULARY * (blocks / _KNOWN_OTHERS) ** _VOCABULARY_POWER / n_embd
    near = min(sizes, key=lambda size: (abs(math.log(size / wanted)), size))  # the smaller of two
    right = {size for size in sizes if wanted / _FACTOR <= size <= wanted * _FACTOR}
    return tuple(sorted(right | {near}))
