"""How far one distribution of the next token is from another. Shapes: V tokens."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def kl(reference: NDArray[Any], logits: NDArray[Any]) -> NDArray[np.float64]:
    """KL(reference || logits) of softmax over the last axis, in nats: (..., V) twice -> (...)."""
    log_p, log_q = _log_softmax(reference), _log_softmax(logits)
    divergence: NDArray[np.float64] = (np.exp(log_p) * (log_p - log_q)).sum(-1)
    return divergence


def _log_softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    normalised: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return normalised
