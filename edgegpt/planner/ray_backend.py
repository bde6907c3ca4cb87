"""Run the same search on a Ray cluster, whose machines have this edgegpt installed.

Ray is imported here alone, and only when a cluster is asked for (extra [ray]).
"""

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from edgegpt.errors import ConfigError, first_line
from edgegpt.planner.parallel import Result, Spread, Task, ranges
from edgegpt.planner.search import Job

LOCAL: Final = "local"  # a cluster of this machine alone, which ends with the search

# Environment variables that Ray reads when it is imported.
_SETTINGS: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # the default, set because Ray warns without it
}
# Otherwise Ray tries for minutes where no cluster answers; one that it starts itself may take its time.
_REMOTE_SETTINGS: Final = {
    "RAY_py_gcs_connect_timeout_s": "5",
    "RAY_gcs_rpc_server_connect_timeout_s": "2",
    "RAY_NUM_REDIS_GET_RETRIES": "1",
}
# A local cluster listens on every interface, so only this process may know its token.
_LOCAL_SETTINGS: Final = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


@contextmanager
def ray_cluster(job: Job, address: str) -> Iterator[Spread]:
    """Run each range as a task of the cluster at `address`, which gets the job once for all tasks.

    Args:
        job: the search.
        address: `host:port` of the head of a cluster that this machine is part of, `ray://host:port` of
            another cluster's client server, `auto` for the cluster that runs on this machine, or `local`
            to start one for the time of the search. A cluster with a token needs RAY_AUTH_MODE=token and
            RAY_AUTH_TOKEN.

    Raises:
        ConfigError: no cluster answers there, or a task fails.
        ModuleNotFoundError: ray is not installed.
    """
    for name, value in (_SETTINGS | (_LOCAL_SETTINGS if address == LOCAL else _REMOTE_SETTINGS)).items():
        os.environ.setdefault(name, value)
    import ray

    options: dict[str, Any] = {"include_dashboard": False} if address == LOCAL else {}
    try:
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
        except Exception as e:  # ray raises many classes
            raise ConfigError(
                f"no Ray cluster answers at {address!r} ({_last_line(e)}); give --ray host:port, "
                "ray://host:port, auto or local"
            ) from e
        shared = ray.put(job)

        def spread(task: Task[Result]) -> Iterator[Result]:
            remote = ray.remote(num_cpus=1)(task)
            references = [remote.remote(shared, start, stop) for start, stop in ranges(job)]
            return (ray.get(reference) for reference in references)

        yield spread
    except ray.exceptions.RayError as e:
        cause = getattr(e, "cause", None) or e
        raise ConfigError(
            f"the Ray cluster at {address!r}, whose machines need this edgegpt, failed: "
            f"{type(cause).__name__}: {first_line(cause)}"
        ) from e
    finally:
        ray.shutdown()


def _last_line(error: BaseException) -> str:
    """Return the line of Ray's paragraph that holds the cause."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return first_line(Exception(lines[-1]))
