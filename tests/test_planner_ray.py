"""`edgegpt plan --ray` on a real Ray; each command is a process, because Ray's settings stay for good."""

import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from threading import Timer

import pytest
import yaml
from helpers.family import left_after, session, started

FEW = ("--vocab-size", "512", "--precision", "int8", "--json")  # some 2,500 models


@pytest.fixture
def budget(tmp_path: Path) -> Path:
    path = tmp_path / "budget.yaml"
    path.write_text(yaml.safe_dump({"name": "hand", "parameters": 3_000_000, "artifact_mb": 4.0}))
    return path


def test_without_ray_the_extra_is_named(
    budget: Path, command_error: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "[ray]" in command_error("plan", "--budget", budget, "--ray", "local")


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """Skip where Ray is missing, but not in CI; give it a folder for sockets, whose paths must be short."""
    if find_spec("ray") is None:
        assert os.environ.get("CI") != "true", "pip install -c constraints.txt -e '.[ray]'"
        pytest.skip("needs Ray")
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp", ignore_cleanup_errors=True) as folder:
        # Without the last, Ray looks for a head at 127.0.0.1 under the address that other machines know.
        yield {**kept, "HOME": folder, "RAY_TMPDIR": folder, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


Plan = Callable[..., tuple[int, str, str]]


@pytest.fixture
def plan(environment: dict[str, str], budget: Path) -> Plan:
    """`plan("--ray", "local")` returns exit code, output and errors; no process may outlive the command."""

    def run(*arguments: str) -> tuple[int, str, str]:
        child = started("edgegpt", "plan", "--budget", str(budget), *FEW, *arguments, env=environment)
        try:
            out, errors = child.communicate(timeout=180)
        finally:
            left = left_after(child.pid, 10)
        assert left == []
        return child.returncode, out, errors

    return run


@pytest.fixture
def addresses(environment: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Addresses of `ray start --head` on loopback: of its head and of its client server."""
    with socket.socket() as one, socket.socket() as two:
        for free in (one, two):
            free.bind(("127.0.0.1", 0))
        gcs, client = one.getsockname()[1], two.getsockname()[1]
    arguments = ["start", "--head", "--block", f"--port={gcs}", f"--ray-client-server-port={client}"]
    arguments += ["--num-cpus=2", "--node-ip-address=127.0.0.1", "--include-dashboard=false"]
    # The head forks a server for each client while gRPC's threads run, and about every second one died of it.
    environment = {**environment, "GRPC_ENABLE_FORK_SUPPORT": "0"}
    head = started("ray.scripts.scripts", *arguments, "--disable-usage-stats", env=environment)
    assert head.stdout is not None
    deadline = Timer(60, head.kill)  # ends the reading too
    deadline.start()
    ready = any("block forever" in line for line in head.stdout)
    deadline.cancel()
    assert ready
    yield f"127.0.0.1:{gcs}", f"ray://127.0.0.1:{client}"
    head.send_signal(signal.SIGTERM)
    try:
        head.communicate(timeout=30)
    finally:
        left_after(head.pid, 10)


@pytest.mark.slow
def test_a_running_cluster_finds_what_one_process_finds(plan: Plan, addresses: tuple[str, str]) -> None:
    _, here, _ = plan("--workers", "1")
    for address in (*addresses, "auto"):
        code, out, errors = plan("--ray", address)
        assert (code, errors) == (0, "")
        assert json.loads(out) == json.loads(here)


@pytest.mark.slow
def test_a_local_cluster_finds_it_too_and_ends_with_the_search(plan: Plan, budget: Path) -> None:
    budget.write_text(yaml.safe_dump({"name": "hand", "artifact_mb": 0.001}))  # needs both passes
    ray = plan("--ray", "local")
    assert ray == plan("--workers", "1")
    assert ray[0] == 1


@pytest.mark.slow
@pytest.mark.parametrize("address", ["auto", "127.0.0.1:9", "nowhere"])
def test_without_a_cluster_the_error_names_the_address(plan: Plan, address: str) -> None:
    code, out, errors = plan("--ray", address)
    assert (code, out) == (2, "")
    assert repr(address) in errors.splitlines()[-1]  # Ray may write lines of its own before


@pytest.mark.slow
def test_ctrl_c_ends_the_search_and_its_own_cluster(environment: dict[str, str], budget: Path) -> None:
    child = started("edgegpt", "plan", "--budget", str(budget), "--json", "--ray", "local", env=environment)
    try:
        end = time.monotonic() + 60
        while len(session(child.pid)) < 6 and time.monotonic() < end:  # the cluster is there
            assert child.poll() is None
            time.sleep(0.05)
        time.sleep(1)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
        assert (child.returncode, errors) == (130, "edgegpt: interrupted\n")
    finally:
        child.kill()
        left = left_after(child.pid, 20)
    # Of a cluster that was ended while it started, Ray's agents look for it for a minute before they end too.
    assert [command for command in left if not command.startswith("ray::")] == []
