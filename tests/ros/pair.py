"""What most tests begin with: a generator in a ROS domain of its own, and a peer that knows it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .generator_process import GeneratorProcess
from .peer import Peer, until
from .workspace import environment, own_domain


@contextmanager
def generator_and_peer(
    parameters: Mapping[str, Any], *, active: bool = True, namespace: str = "", **options: Any
) -> Iterator[tuple[GeneratorProcess, Peer]]:
    """Both in one namespace, once they know each other.

    `active=False` is for a node that does not become active, or not at once; `options` are those of
    GeneratorProcess.
    """
    with (
        own_domain() as domain,
        GeneratorProcess(environment(domain), parameters, namespace=namespace, **options) as process,
        Peer(domain, namespace) as peer,
    ):
        peer.wait_for_node()
        if active:
            until(lambda: peer.state() == "active", "active node")
        yield process, peer
