"""Serve one engine to many clients: scheduler, requests, sessions, statistics."""

from edgegpt.serving.request import Outcome, RequestHandle
from edgegpt.serving.scheduler import Overload
from edgegpt.serving.server import GenerationServer
from edgegpt.serving.stats import ServerStatistics

__all__ = ["GenerationServer", "Outcome", "Overload", "RequestHandle", "ServerStatistics"]
