"""Serve one engine to many clients: scheduler, requests, sessions, statistics."""

from typing import TYPE_CHECKING

from edgegpt import lazy_names

if TYPE_CHECKING:
    from edgegpt.serving.request import Outcome as Outcome, RequestHandle as RequestHandle
    from edgegpt.serving.scheduler import Overload as Overload
    from edgegpt.serving.server import GenerationServer as GenerationServer
    from edgegpt.serving.stats import ServerStatistics as ServerStatistics

__getattr__ = lazy_names(
    __name__,
    {
        "request": "Outcome RequestHandle",
        "scheduler": "Overload",
        "server": "GenerationServer",
        "stats": "ServerStatistics",
    },
)
