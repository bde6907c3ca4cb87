"""Which of the planned models keeps the budget when it is measured; where none does, a second search."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from edgegpt.errors import BudgetError
from edgegpt.planner.finalists import Finalist
from edgegpt.planner.limits import Limits
from edgegpt.planner.planner import Plan
from edgegpt.planner.search import Rated


@dataclass(frozen=True)
class Proof:
    """What measuring said of a plan.

    Attributes:
        chosen: the strongest that kept the budget; without measuring the strongest. None if none did.
        measured: the finalists, in the order of their searches.
        slower: by limit, how many times what was predicted the first finalists took; the second search was
            held to limits divided by that. Empty where there was none.
    """

    chosen: Rated | None
    measured: tuple[Finalist, ...] = ()
    slower: dict[str, float] = field(default_factory=dict)

    @property
    def noise(self) -> tuple[str, ...]:
        """Why the times of the first finalist that has a reason are not to be trusted."""
        return next((finalist.noise for finalist in self.measured if finalist.noise), ())

    def shortfall(self, limits: Limits) -> str:
        """What breaks the budget in the finalist that comes nearest to it."""
        nearest = min(
            self.measured,
            key=lambda f: max(f.measured[name] / limits.values[name] for name in f.broken(limits)),
        )
        return nearest.shortfall(limits)


def prove(
    planned: Plan,
    measure: Callable[[Plan], Iterable[Finalist]],
    search_again: Callable[[Mapping[str, float]], Plan],
) -> Proof:
    """Measure finalists; where all of them break the budget, those of a search that allows for it.

    On a busy machine nothing follows from their times, so that there is no second search.

    Args:
        planned: with the limits that count.
        measure: the finalists of a plan.
        search_again: for models that keep the budget though they take so many times what is predicted.

    Raises:
        MeasureError: a model does not fit into the free memory, or a process failed.
    """
    measured = tuple(measure(planned))
    if not measured:
        return Proof(planned.found.best[0])
    if chosen := _first_that_keeps(measured, planned.limits):
        return Proof(chosen, measured)
    if any(finalist.noise for finalist in measured):
        return Proof(None, measured)
    slower = _slower(measured, planned.limits)
    try:
        again = tuple(measure(search_again(slower)))
    except BudgetError:  # nothing keeps the budget with that much to spare
        return Proof(None, measured, slower)
    return Proof(_first_that_keeps(again, planned.limits), measured + again, slower)


def _first_that_keeps(measured: Iterable[Finalist], limits: Limits) -> Rated | None:
    return next((finalist.rated for finalist in measured if not finalist.broken(limits)), None)


def _slower(measured: Iterable[Finalist], limits: Limits) -> dict[str, float]:
    """For each limit that one broke, the largest measured / predicted."""
    found: dict[str, float] = {}
    for finalist in measured:
        for name in finalist.broken(limits):
            ratio = finalist.measured[name] / finalist.rated.figures[name]
            found[name] = max(ratio, found.get(name, 1.0))
    return found
