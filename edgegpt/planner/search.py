"""Look at a range of the space, and put the results of ranges together.

Everything is ordered by keys without ties, so that the result does not depend on how the space was cut.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from edgegpt.planner.limits import PlanLimits, broken, counted, predicted
from edgegpt.planner.scaling import expected_loss
from edgegpt.planner.space import Candidate, Space
from edgegpt.prediction import Predictor, Target


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
    limits: PlanLimits
    target: Target | None
    keep: int


@dataclass(frozen=True)
class RankedCandidate:
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

    def json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "config": asdict(self.candidate.config),
            "precision": self.candidate.precision,
            "expected_loss": self.loss,
            "predicted": self.figures,
        }


@dataclass(frozen=True)
class Found:
    """What a range holds: the strongest, those than which none is both stronger and cheaper, and counts."""

    best: tuple[RankedCandidate, ...] = ()
    front: tuple[RankedCandidate, ...] = ()
    kept: int = 0
    seen: int = 0


@dataclass(frozen=True)
class Nearest:
    """Where no model keeps the budget, those that come nearest.

    Attributes:
        but_for: by each limit the model with the least figure for it of those that keep all others; a limit
            for which there is none is missing.
        closest: the one whose worst figure over its limit is the smallest; None where no model was seen.
    """

    but_for: dict[str, RankedCandidate] = field(default_factory=dict)
    closest: RankedCandidate | None = None


def search_range(job: Job, start: int, stop: int) -> Found:
    """Look at the shapes start to stop."""
    predictor = None if job.target is None else Predictor(job.target)
    rated, seen = [], 0
    for candidate in _candidates(job, start, stop):
        seen += 1
        known = counted(candidate)
        if broken(known, job.limits):
            continue  # before anything is predicted
        found = known | predicted(candidate, known, job.limits, predictor)
        if not broken(found, job.limits):
            rated.append(
                RankedCandidate(candidate, expected_loss(candidate.config, candidate.precision), found)
            )
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
    nearest = Nearest()
    for candidate in _candidates(job, start, stop):
        known = counted(candidate)
        if _is_farther(known, nearest, job.limits):
            continue  # before anything is predicted
        figures = known | predicted(candidate, known, job.limits, predictor)
        rated = RankedCandidate(candidate, expected_loss(candidate.config, candidate.precision), figures)
        beyond = broken(figures, job.limits)
        found = Nearest({beyond[0]: rated} if len(beyond) == 1 else {}, rated)
        nearest = merge_nearest(job, (nearest, found))
    return nearest


def merge_nearest(job: Job, parts: Iterable[Nearest]) -> Nearest:
    """The nearest of all ranges."""
    parts = list(parts)
    but_for = {}
    for name in job.limits.values:
        alone = [part.but_for[name] for part in parts if name in part.but_for]
        if alone:
            but_for[name] = min(alone, key=lambda rated: (rated.figures[name], rated.order))
    closest = min(
        (part.closest for part in parts if part.closest is not None),
        key=lambda rated: (_miss(rated.figures, job.limits), rated.order),
        default=None,
    )
    return Nearest(but_for, closest)


def _is_farther(known: dict[str, float], nearest: Nearest, limits: PlanLimits) -> bool:
    """Whether no figure that is still to be predicted can bring a model nearer than what was found."""
    beyond = broken(known, limits)
    if not beyond or nearest.closest is None:
        return False
    alone = nearest.but_for.get(beyond[0])
    useless = len(beyond) > 1 or (alone is not None and known[beyond[0]] > alone.figures[beyond[0]])
    return useless and _miss(known, limits) > _miss(nearest.closest.figures, limits)


def _miss(figures: dict[str, float], limits: PlanLimits) -> float:
    """The worst of those that are there, over its limit."""
    return max((figures[name] / limit for name, limit in limits.values.items() if name in figures), default=0)


def _candidates(job: Job, start: int, stop: int) -> Iterator[Candidate]:
    for n_layer, n_embd in job.space.shapes()[start:stop]:
        yield from job.space.candidates(n_layer, n_embd)


def _strongest(rated: Iterable[RankedCandidate], n: int) -> tuple[RankedCandidate, ...]:
    """Of models that differ in vocabulary and context alone, which weigh nothing, the first."""
    found: dict[tuple[int, int, str], RankedCandidate] = {}
    for r in sorted(rated, key=lambda r: r.order):
        config = r.candidate.config
        found.setdefault((config.n_layer, config.n_embd, r.candidate.precision), r)
        if len(found) == n:
            break
    return tuple(found.values())


def _front(rated: Iterable[RankedCandidate]) -> tuple[RankedCandidate, ...]:
    """From the strongest to the cheapest, each cheaper than all that are stronger or as strong (Pareto)."""
    front: list[RankedCandidate] = []
    for r in sorted(rated, key=lambda r: (r.loss, r.cost, r.order)):
        if not front or r.cost < front[-1].cost:
            front.append(r)
    return tuple(front)
