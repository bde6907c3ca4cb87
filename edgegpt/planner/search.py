"""Search a range of the space, and merge the results of ranges.

Everything is sorted by keys without ties, so the result does not depend on how the space was split.
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
    """Description of a search, which all of its tasks get.

    Attributes:
        space: models to search.
        limits: limits that they have to keep.
        target: board profile; None where only sizes are limited.
        keep: number of the strongest models to return.
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
        """Return the cost of strength: time of a decode step, or without a profile the size of the file."""
        return self.figures.get("token_ms.p50", self.figures["artifact_mb"])

    @property
    def order(self) -> tuple[float | str, ...]:
        """Return the sort key: stronger, then longer context, then cheaper; the rest makes it unique."""
        c = self.candidate.config
        shape = (c.n_layer, c.n_embd, c.n_head, c.vocab_size, self.candidate.precision)
        return (self.loss, -c.block_size, self.cost, *shape)

    def json(self) -> dict[str, Any]:
        """Return the model as in the JSON output of `edgegpt plan`."""
        return {
            "config": asdict(self.candidate.config),
            "precision": self.candidate.precision,
            "expected_loss": self.loss,
            "predicted": self.figures,
        }


@dataclass(frozen=True)
class Found:
    """Result of a range: the strongest models, the Pareto front of strength and cost, and counts."""

    best: tuple[RankedCandidate, ...] = ()
    front: tuple[RankedCandidate, ...] = ()
    kept: int = 0
    seen: int = 0


@dataclass(frozen=True)
class Nearest:
    """Models nearest to a budget that none keeps.

    Attributes:
        but_for: for each limit, the model with the smallest figure among those that keep all other limits;
            limits without such a model are missing.
        closest: the model with the smallest maximum of figure / limit; None if no model was seen.
    """

    but_for: dict[str, RankedCandidate] = field(default_factory=dict)
    closest: RankedCandidate | None = None


def search_range(job: Job, start: int, stop: int) -> Found:
    """Return the models of the shapes start to stop that keep the limits."""
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
    """Merge the results of ranges."""
    parts = list(parts)
    best = _strongest((r for part in parts for r in part.best), job.keep)
    front = _front(r for part in parts for r in part.front)
    return Found(best, front, sum(part.kept for part in parts), sum(part.seen for part in parts))


def nearest_in_range(job: Job, start: int, stop: int) -> Nearest:
    """Return the models of the shapes start to stop nearest to the limits, where none keeps all."""
    predictor = None if job.target is None else Predictor(job.target)
    nearest = Nearest()
    for candidate in _candidates(job, start, stop):
        known = counted(candidate)
        if _is_farther(known, nearest, job.limits):
            continue  # before anything is predicted
        figures = known | predicted(candidate, known, job.limits, predictor)
        rated = RankedCandidate(candidate, expected_loss(candidate.config, candidate.precision), figures)
        exceeded = broken(figures, job.limits)
        found = Nearest({exceeded[0]: rated} if len(exceeded) == 1 else {}, rated)
        nearest = merge_nearest(job, (nearest, found))
    return nearest


def merge_nearest(job: Job, parts: Iterable[Nearest]) -> Nearest:
    """Merge the nearest models of ranges."""
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
    """Return whether no predicted figure could make this model nearer than those found."""
    exceeded = broken(known, limits)
    if not exceeded or nearest.closest is None:
        return False
    alone = nearest.but_for.get(exceeded[0])
    useless = len(exceeded) > 1 or (alone is not None and known[exceeded[0]] > alone.figures[exceeded[0]])
    return useless and _miss(known, limits) > _miss(nearest.closest.figures, limits)


def _miss(figures: dict[str, float], limits: PlanLimits) -> float:
    """Return the maximum of figure / limit of the known figures."""
    return max((figures[name] / limit for name, limit in limits.values.items() if name in figures), default=0)


def _candidates(job: Job, start: int, stop: int) -> Iterator[Candidate]:
    for n_layer, n_embd in job.space.shapes()[start:stop]:
        yield from job.space.candidates(n_layer, n_embd)


def _strongest(rated: Iterable[RankedCandidate], n: int) -> tuple[RankedCandidate, ...]:
    """Return the first `n`, one for each shape: vocabulary and context alone do not change strength."""
    found: dict[tuple[int, int, str], RankedCandidate] = {}
    for r in sorted(rated, key=lambda r: r.order):
        config = r.candidate.config
        found.setdefault((config.n_layer, config.n_embd, r.candidate.precision), r)
        if len(found) == n:
            break
    return tuple(found.values())


def _front(rated: Iterable[RankedCandidate]) -> tuple[RankedCandidate, ...]:
    """Return the Pareto front from the strongest to the cheapest."""
    front: list[RankedCandidate] = []
    for r in sorted(rated, key=lambda r: (r.loss, r.cost, r.order)):
        if not front or r.cost < front[-1].cost:
            front.append(r)
    return tuple(front)
