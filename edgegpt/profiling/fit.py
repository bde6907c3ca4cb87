"""Sums of terms that are not negative, fitted by least squares of the relative errors."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np


def fit(terms: Sequence[Sequence[float]], measured: Sequence[float]) -> tuple[float, ...]:
    """Coefficients c >= 0 for which the sums of c_j * terms[i][j] come closest to measured[i].

    Few terms, so every choice of those that are not 0 is solved, and the best that needs no negative
    one is taken: it is the solution of the problem (Lawson and Hanson, Solving Least Squares Problems,
    1974, chapter 23). Each row is divided by what was measured, so that a small model counts as much as a
    large one; a row that is not above 0 (noise ate it) is left out.
    """
    a, y = np.asarray(terms, np.float64), np.asarray(measured, np.float64)
    a, y = a[y > 0], y[y > 0]
    n = a.shape[1]
    best, least = np.zeros(n), float(len(y))
    scaled = a / y[:, None]
    for size in range(1, n + 1):
        for chosen in map(list, combinations(range(n), size)):
            solution, *_ = np.linalg.lstsq(scaled[:, chosen], np.ones(len(y)), rcond=None)
            error = float(np.square(scaled[:, chosen] @ solution - 1).sum())
            if (solution >= 0).all() and error < least:
                best, least = np.zeros(n), error
                best[chosen] = solution
    return tuple(float(c) for c in best)
