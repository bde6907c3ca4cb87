"""The same search on a Ray cluster, whose machines have this edgegpt installed.

Ray's reports to its makers are off before it is imported, and so is its dashboard. A cluster of this machine
alone listens, as Ray does, on every interface, so it gets a token that nobody else knows. A cluster that was
started with a token asks for it: RAY_AUTH_MODE=token and RAY_AUTH_TOKEN, as Ray says. It is imported here
alone, and only when a cluster is asked for (extra [ray]).
"""

import os
import re
import secrets
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from edgegpt.errors import ConfigError, first_line
from edgegpt.planner.parallel import Result, Spread, Task, ranges
from edgegpt.planner.search import Job

LOCAL: Final = "local"  # a cluster of this machine alone, for as long as the search takes
_AUTO: Final = "auto"  # the cluster that runs on this machine
_SECONDS: Final = 3.0
_PATIENCE: Final = 10.0  # seconds; a range takes less than one
# One token for all clusters of a process, since Ray remembers the first.
_OURS_ALONE: Final = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
_NO_CODE: Final = "The remote function failed to import"  # on a worker that has not the same modules
_HINT: Final = "; its machines need this edgegpt"
_OTHER_CODE: Final = (ImportError, AttributeError, TypeError)  # what reading objects of other modules raises
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


@contextmanager
def ray_cluster(job: Job, address: str, on_wait: Callable[[str], None]) -> Iterator[Spread]:
    """Each range a task of the cluster at `address`, which has the job once for all tasks.

    Args:
        job: of the ranges.
        address: host:port of the head of a cluster that this machine is part of; ray://host:port of the
            client's door of another; `auto` for the one that runs here; `local` for one of its own.
        on_wait: is told what keeps a task waiting, now and then.

    Raises:
        ConfigError: nothing answers there, or Ray cannot work with it.
        ModuleNotFoundError: ray is not installed.
    """
    if address not in (LOCAL, _AUTO):
        _check_answers(address)
    for name, value in _settings(address).items():
        os.environ.setdefault(name, value)  # for good: Ray looks at some of them again and again
    import ray

    with _connected(ray, address):
        with _failures_in_a_sentence(ray, address):
            shared = ray.put(job)

        def spread(task: Task[Result]) -> Iterator[Result]:
            with _failures_in_a_sentence(ray, address):
                remote = ray.remote(num_cpus=1)(task)
                waiting = [remote.remote(shared, start, stop) for start, stop in ranges(job)]
            return _results(ray, waiting, address, on_wait)

        yield spread


def _results(ray: Any, waiting: Sequence[Any], address: str, on_wait: Callable[[str], None]) -> Iterator[Any]:
    with _failures_in_a_sentence(ray, address):
        for reference in waiting:
            while not ray.wait([reference], timeout=_PATIENCE)[0]:
                on_wait(_what_is_missing(ray, address))
            yield ray.get(reference)


@contextmanager
def _failures_in_a_sentence(ray: Any, address: str) -> Iterator[None]:
    """As a ConfigError: Ray's own and, with ray://, whatever reading our objects has raised in its head."""
    try:
        yield
    except ray.exceptions.RayError as e:
        raise ConfigError(f"the Ray cluster at {address} failed: {_cause(e)}") from e
    except Exception as e:
        hint = _HINT if isinstance(e, _OTHER_CODE) else ""
        raise ConfigError(
            f"the Ray cluster at {address} failed: {type(e).__name__}: {first_line(e)}{hint}"
        ) from e


def _what_is_missing(ray: Any, address: str) -> str:
    free, cpus = (int(found.get("CPU", 0)) for found in (ray.available_resources(), ray.cluster_resources()))
    return f"waiting for the Ray cluster at {address}, which has {free} of its {cpus} CPUs free"


def _cause(error: BaseException) -> str:
    """What a task raised, or what Ray itself says last: it makes coloured paragraphs of both."""
    cause = getattr(error, "cause", None)
    text = str(cause) if isinstance(cause, BaseException) else str(error)
    lines = [line.strip() for line in _COLOUR.sub("", text).splitlines() if line.strip()]
    if text.startswith(_NO_CODE):
        return f"{first_line(Exception(lines[-1]))}{_HINT}"
    if isinstance(cause, BaseException):
        return f"{type(cause).__name__}: {first_line(cause)}"
    return first_line(Exception(lines[-1])) if lines else type(error).__name__


@contextmanager
def _connected(ray: Any, address: str) -> Iterator[None]:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address == LOCAL:
        options |= {"include_dashboard": False}
    try:
        try:
            with _said_by_us_alone():
                ray.init(address=address, **options)
        except Exception as e:  # of many kinds
            raise ConfigError(_no_cluster(address, e)) from e
        yield
    finally:  # the search is over, whatever Ray says; Ctrl-C while it starts ends it too
        with suppress(Exception):
            ray.shutdown()


def _no_cluster(address: str, error: Exception) -> str:
    if address == _AUTO and isinstance(error, ConnectionError) and "Could not find" in str(error):
        return "no Ray cluster runs on this machine; give the host:port of one, or local"
    return f"there is no Ray cluster at {address} to work with: {_cause(error)}{_token_hint(address)}"


@contextmanager
def _said_by_us_alone() -> Iterator[None]:
    """Ray's C++ writes to the descriptor of stderr, whatever a log level says; a failure is one sentence."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _token_hint(address: str) -> str:
    """Ray says in a log alone that a token is missing."""
    if address == LOCAL or "RAY_AUTH_TOKEN" in os.environ:
        return ""
    return "; one that was started with a token wants RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"


def _settings(address: str) -> dict[str, str]:
    """Environment variables of Ray."""
    settings = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # the choice of today, of which Ray would warn
    }
    if address == LOCAL:
        # Ray reads this when it is imported. Whoever has done so before gets what Ray does by itself.
        return settings if "ray" in sys.modules else settings | _OURS_ALONE
    return settings | {  # Ray would try for minutes to speak with what is no cluster
        "RAY_py_gcs_connect_timeout_s": "5",
        "RAY_gcs_rpc_server_connect_timeout_s": "2",
        "RAY_NUM_REDIS_GET_RETRIES": "1",
    }


def _check_answers(address: str) -> None:
    """Raise ConfigError at once where nobody listens, or where the address is none."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 2**16:
        raise ConfigError(
            f"the address of a Ray cluster must be host:port, ray://host:port, auto or local, got {address!r}"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS).close()
    except OSError as e:
        raise ConfigError(f"nothing answers at {address} within {_SECONDS:g} s: {e.strerror or e}") from e
    except ValueError as e:  # UnicodeError of a name that cannot be one, or a NUL in it
        raise ConfigError(f"{host!r} is no name of a host, got --ray {address!r}") from e
