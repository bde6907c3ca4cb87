"""Look at a range of the space, and put the results of ranges together.

Everything is ordered by keys without ties, so that the result does not depend on how the space was cut.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from edgegpt.planner.limits import Limits, counted, figures, keeps
from edgegpt.planner.scaling import expected_loss
from edgegpt.planner.space import Candidate, Space
from edgegpt.prediction import Predictor
from edgegpt.target import Target


@dataclass(frozen=True)
class Job:
    """What is searched, for whoever does a part of it.

    Attributes:
        space: of models.
        limits: that they have to keep.
        target: of predictions; None where only sizes are limited.
        keep: how many of the strongest are wanted.
    """

    space: Space
    limits: Limits
    target: Target | None
    keep: int


@dataclass(frozen=True)
class Rated:
    """A model with its figures; `loss` is scaling.expected_loss."""

    candidate: Candidate
    loss: float
    figures: dict[str, float]

    @property
    def cost(self) -> float:
        """What stands against its strength: the time of a token, or without a target its bytes."""
        return self.figures.get("token_ms.p50", self.figures["artifact_mb"])

    @property
    def order(self) -> tuple[float | str, ...]:
        """Stronger first, then a longer context, then cheaper; the rest makes it unique."""
        c = self.candidate.config
        shape = (c.n_layer, c.n_embd, c.n_head, c.vocab_size, self.candidate.precision)
        return (self.loss, -c.block_size, self.cost, *shape)


@dataclass(frozen=True)
class Found:
    """What a range holds: the strongest, those than which none is both stronger and cheaper, and counts."""

    best: tuple[Rated, ...] = ()
    front: tuple[Rated, ...] = ()
    kept: int = 0
    seen: int = 0


@dataclass(frozen=True)
class Nearest:
    """Where nothing keeps the budget: the least of each limited figure, and the model that misses least."""

    least: dict[str, float]
    closest: Rated
    miss: float  # its worst figure over the limit
    binds: str  # the name of that figure


def search_range(job: Job, start: int, stop: int) -> Found:
    """Look at the shapes start to stop."""
    predictor = None if job.target is None else Predictor(job.target)
    rated, seen = [], 0
    for candidate in _candidates(job, start, stop):
        seen += 1
        if not keeps(counted(candidate, job.limits), job.limits):
            continue  # before anything is predicted
        found = figures(candidate, job.limits, predictor)
        if keeps(found, job.limits):
            rated.append(Rated(candidate, expected_loss(candidate.config, candidate.precision), found))
    return Found(_strongest(rated, job.keep), _front(rated), len(rated), seen)


def merge(job: Job, parts: Iterable[Found]) -> Found:
    """The results of ranges as one."""
    parts = list(parts)
    best = _strongest((r for part in parts for r in part.best), job.keep)
    front = _front(r for part in parts for r in part.front)
    return Found(best, front, sum(part.kept for part in parts), sum(part.seen for part in parts))


def nearest_in_range(job: Job, start: int, stop: int) -> Nearest:
    """Where the shapes start to stop come nearest to the limits, none of them keeping all."""
    predictor = None if job.target is None else Predictor(job.target)
    found = []
    for candidate in _candidates(job, start, stop):
        rated = Rated(
            candidate,
            expected_loss(candidate.config, candidate.precision),
            figures(candidate, job.limits, predictor),
        )
        found.append(_nearest(rated, job.limits))
    return merge_nearest(found)


def merge_nearest(parts: Iterable[Nearest]) -> Nearest:
    """The nearest of all; of each figure the least."""
    parts = list(parts)
    least = {name: min(part.least[name] for part in parts) for name in parts[0].least}
    closest = min(parts, key=lambda part: (part.miss, part.closest.order))
    return Nearest(least, closest.closest, closest.miss, closest.binds)


def _nearest(rated: Rated, limits: Limits) -> Nearest:
    over = {name: rated.figures[name] / limit for name, limit in limits.values.items()}
    binds = max(over, key=lambda name: (over[name], name))
    return Nearest({name: rated.figures[name] for name in over}, rated, over[binds], binds)


def _candidates(job: Job, start: int, stop: int) -> Iterator[Candidate]:
    for n_layer, n_embd in job.space.shapes()[start:stop]:
        yield from job.space.candidates(n_layer, n_embd)


def _strongest(rated: Iterable[Rated], n: int) -> tuple[Rated, ...]:
    """Of models that differ in heads, vocabulary and context alone, which weigh nothing, the first."""
    found: dict[tuple[int, int, str], Rated] = {}
    for r in sorted(rated, key=lambda r: r.order):
        config = r.candidate.config
        found.setdefault((config.n_layer, config.n_embd, r.candidate.precision), r)
        if len(found) == n:
            break
    return tuple(found.values())


def _front(rated: Iterable[Rated]) -> tuple[Rated, ...]:
    """From the strongest to the cheapest, each cheaper than all that are stronger or as strong (Pareto)."""
    front: list[Rated] = []
    for r in sorted(rated, key=lambda r: (r.loss, r.cost, r.order)):
        if not front or r.cost < front[-1].cost:
            front.append(r)
    return tuple(front)
