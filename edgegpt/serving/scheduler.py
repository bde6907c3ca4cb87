"""Which request is at work, which wait, and who makes room for whom. No threads here."""

from typing import Final, Literal, get_args

from edgegpt.errors import ConfigError, OverloadedError
from edgegpt.serving.request import RequestHandle

Overload = Literal["reject", "queue", "preempt", "latest"]

_NEVER: Final = float("inf")


class Scheduler:
    """One request at work and up to queue_depth that wait, by priority and then by age.

    A request that comes while none is at work is never refused. While one is, `overload` decides:

    - `reject`: a new request is refused. Nobody ever waits.
    - `queue`: it waits. While queue_depth requests wait it is refused, whatever its priority.
    - `preempt`: with at least the priority of the one at work it ends that one and is next. So does
      one that comes before the switch is done: it ends the one that was to be next. With a lower
      priority it waits as in `queue`.
    - `latest`: the one at work goes on. A new request ends those that wait with its priority or a
      lower one, and waits itself; while queue_depth of a higher priority wait it is refused.

    Attributes:
        running: the request at work; None only when none waits either.
        next_deadline: the earliest of those that wait, on the clock of `Request.arrived`.
    """

    def __init__(self, overload: Overload, depth: int) -> None:
        if overload not in get_args(Overload):
            raise ConfigError(f"overload must be one of {', '.join(get_args(Overload))}, got {overload!r}")
        if isinstance(depth, bool) or not isinstance(depth, int) or depth < 0:
            raise ConfigError(f"queue_depth must be a whole number of at least 0, got {depth!r}")
        self._overload = overload
        self._depth = depth
        self.running: RequestHandle | None = None
        self._waiting: list[RequestHandle] = []  # in the order in which they will run
        self._successor: RequestHandle | None = None  # the first of them, when it ended the one at work
        self.next_deadline = _NEVER

    def __len__(self) -> int:
        """Number of requests that wait."""
        return len(self._waiting)

    def offer(self, ticket: RequestHandle) -> list[RequestHandle]:
        """Take in a request; those whose place it takes, of which only `running` is still in here.

        Raises:
            OverloadedError: there is no place for it; nothing has changed.
        """
        if self.running is None:
            self.running = ticket
            return []
        if self._overload == "reject":
            raise OverloadedError("another request is at work and overload is 'reject'; try again later")
        if self._overload == "preempt":
            holder = self._successor or self.running
            if ticket.request.priority >= holder.request.priority:
                self._keep([ticket, *(other for other in self._waiting if other is not holder)])
                self._successor = ticket
                return [holder]
        replaced: list[RequestHandle] = []
        if self._overload == "latest":
            replaced = [t for t in self._waiting if t.request.priority <= ticket.request.priority]
        kept = [t for t in self._waiting if t not in replaced]
        if len(kept) - (self._successor is not None) >= self._depth:
            raise OverloadedError(
                f"{len(kept)} requests wait already and queue_depth is {self._depth}; try again later"
            )
        behind = [n for n, other in enumerate(kept) if other.request.priority < ticket.request.priority]
        kept.insert(behind[0] if behind else len(kept), ticket)
        self._keep(kept)
        return replaced

    def advance(self) -> None:
        """Take out the request at work; the first that waits is now at work."""
        self.running = self._waiting[0] if self._waiting else None
        self._keep(self._waiting[1:])

    def remove(self, ticket: RequestHandle) -> bool:
        """Take out a request that waits; whether it did."""
        waited = ticket in self._waiting
        self._keep([other for other in self._waiting if other is not ticket])
        return waited

    def remove_expired(self, now: float) -> list[RequestHandle]:
        """Take out those that wait and whose deadline has passed."""
        expired = [ticket for ticket in self._waiting if ticket.request.deadline <= now]
        self._keep([ticket for ticket in self._waiting if ticket.request.deadline > now])
        return expired

    def remove_waiting(self) -> list[RequestHandle]:
        """Take out all that wait."""
        waiting = self._waiting
        self._keep([])
        return waiting

    def _keep(self, waiting: list[RequestHandle]) -> None:
        self._waiting = waiting
        if self._successor not in waiting:
            self._successor = None
        self.next_deadline = min((ticket.request.deadline for ticket in waiting), default=_NEVER)
