"""Scheduling: which request runs, which wait, and which are preempted. No threads, no locks."""

from typing import Final, Literal, get_args

from edgegpt.errors import ConfigError, OverloadedError, whole_number
from edgegpt.serving.request import RequestHandle

Overload = Literal["reject", "queue", "preempt", "latest"]

_NEVER: Final = float("inf")


class Scheduler:
    """One running request and up to queue_depth waiting ones, by priority and then by age.

    A request that is submitted while none runs is never refused. While one runs, `overload` decides:

    - `reject`: a new request is refused; none ever waits.
    - `queue`: it waits. While queue_depth requests wait it is refused, at any priority.
    - `preempt`: with at least the priority of the running one it preempts that one and is next. One that
      is submitted before the switch preempts the request that was to be next. With a lower priority it
      waits as in `queue`.
    - `latest`: the running one goes on. A new request preempts waiting ones of its priority or a lower
      one, and waits; while queue_depth of a higher priority wait it is refused.

    Attributes:
        running: the running request; None only when none waits either.
        next_deadline: earliest deadline of the waiting ones, on the clock of `Request.arrived`.

    Raises:
        ConfigError: overload is unknown, or queue_depth is negative.
    """

    def __init__(self, overload: Overload, depth: int) -> None:
        if overload not in get_args(Overload):
            raise ConfigError(f"overload must be one of {', '.join(get_args(Overload))}, got {overload!r}")
        self._overload = overload
        self._depth = whole_number("queue_depth", depth, ConfigError)
        self.running: RequestHandle | None = None
        self._waiting: list[RequestHandle] = []  # in the order in which they will run
        self._successor: RequestHandle | None = None  # the first of them, if it preempted the running one
        self.next_deadline = _NEVER

    def __len__(self) -> int:
        """Number of waiting requests."""
        return len(self._waiting)

    @property
    def waiting(self) -> tuple[RequestHandle, ...]:
        """The waiting requests, in the order in which they will run."""
        return tuple(self._waiting)

    def submit(self, handle: RequestHandle) -> list[RequestHandle]:
        """Add a request.

        Returns:
            the requests that it preempted. Waiting ones are removed; the running one stays until
            `advance`.

        Raises:
            OverloadedError: it is refused; nothing has changed.
        """
        if self.running is None:
            self.running = handle
            return []
        if self._overload == "reject":
            raise OverloadedError("another request is running and overload is 'reject'; try again later")
        if self._overload == "preempt":
            holder = self._successor or self.running
            if handle.request.priority >= holder.request.priority:
                self._keep([handle, *(other for other in self._waiting if other is not holder)])
                self._successor = handle
                return [holder]
        preempted: list[RequestHandle] = []
        if self._overload == "latest":
            preempted = [h for h in self._waiting if h.request.priority <= handle.request.priority]
        kept = [h for h in self._waiting if h not in preempted]
        if len(kept) - (self._successor is not None) >= self._depth:
            raise OverloadedError(
                f"{len(kept)} requests wait already and queue_depth is {self._depth}; try again later"
            )
        lower = [n for n, other in enumerate(kept) if other.request.priority < handle.request.priority]
        kept.insert(lower[0] if lower else len(kept), handle)
        self._keep(kept)
        return preempted

    def advance(self) -> None:
        """Remove the running request and let the first waiting one run."""
        self.running = self._waiting[0] if self._waiting else None
        self._keep(self._waiting[1:])

    def remove(self, handle: RequestHandle) -> bool:
        """Remove a waiting request; return whether it was waiting."""
        waited = handle in self._waiting
        self._keep([other for other in self._waiting if other is not handle])
        return waited

    def remove_expired(self, now: float) -> list[RequestHandle]:
        """Remove and return waiting requests whose deadline has passed."""
        expired = [handle for handle in self._waiting if handle.request.deadline <= now]
        self._keep([handle for handle in self._waiting if handle.request.deadline > now])
        return expired

    def remove_waiting(self) -> list[RequestHandle]:
        """Remove and return all waiting requests."""
        waiting = self._waiting
        self._keep([])
        return waiting

    def _keep(self, waiting: list[RequestHandle]) -> None:
        self._waiting = waiting
        if self._successor not in waiting:
            self._successor = None
        self.next_deadline = min((handle.request.deadline for handle in waiting), default=_NEVER)
