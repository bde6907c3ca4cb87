"""`edgegpt plan --ray`: on a real Ray, each command a process of its own, as Ray's settings stay for good."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from types import ModuleType

import pytest
import yaml
from helpers.family import left_after, session

from edgegpt.cli.main import main

Capture = pytest.CaptureFixture[str]

# Without this Ray looks for a head at 127.0.0.1 under the address that other machines know.
ON_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": 4 * "0123456789abcdef"}
FEW = ("--vocab-size", "512", "--precision", "int8", "--json")  # some 2,500 models


@pytest.fixture
def budget(tmp_path: Path) -> str:
    path = tmp_path / "budget.yaml"
    path.write_text(yaml.safe_dump({"name": "hand", "parameters": 3_000_000, "artifact_mb": 4.0}))
    return str(path)


def refused(capsys: Capture, *arguments: str) -> str:
    assert main(["plan", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    return output.err


def test_a_cluster_that_does_not_answer_is_said_at_once(
    budget: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    with socket.socket() as free:  # bound and not listening: nothing else can answer there
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        for given in (address, f"ray://{address}"):
            message = refused(capsys, "--budget", budget, "--ray", given)
            assert f"nothing answers at {given} within 3 s" in message


@pytest.mark.parametrize(
    "wrong", ["nowhere", "host:port", "host:0", "", "host:²", ":6379", "ray://", "h:99999"]
)
def test_an_address_that_is_none_is_refused(wrong: str, budget: str, capsys: Capture) -> None:
    message = refused(capsys, "--budget", budget, "--ray", wrong)
    assert f"must be host:port, ray://host:port, auto or local, got {wrong!r}" in message


@pytest.mark.parametrize("wrong", ["a..b:6379", f"{'a' * 70}.b:6379"])
def test_a_host_that_can_be_none_is_refused(wrong: str, budget: str, capsys: Capture) -> None:
    assert "is no name of a host" in refused(capsys, "--budget", budget, "--ray", wrong)


def test_without_ray_the_extra_is_named(
    budget: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    message = refused(capsys, "--budget", budget, "--ray", "local")
    assert "needs the package 'ray'; install the extra [ray]" in message


# On a real one


@pytest.fixture(scope="module")
def needs_ray() -> None:
    """Skip where it is missing; in CI nothing may be left out."""
    if find_spec("ray") is None:
        sentence = "needs Ray: pip install -c constraints.txt -e '.[ray]'"
        if os.environ.get("CI") == "true":
            pytest.fail(sentence)
        pytest.skip(sentence)


@pytest.fixture(scope="class", autouse=True)
def its_own_folder() -> Iterator[None]:
    """Where Ray notes what runs and keeps its logs and sockets, whose paths must be short."""
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="r", dir="/tmp", ignore_cleanup_errors=True) as folder,
    ):
        patch.setenv("RAY_TMPDIR", folder)
        yield


def environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_") or k == "RAY_TMPDIR"}
    return {**kept, **ON_LOOPBACK, **more}


def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """The command; none of its processes may outlive it."""
    command = [sys.executable, "-m", "edgegpt", "plan", *arguments]
    pipe = subprocess.PIPE
    child = subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env=environment(**more), start_new_session=True
    )
    try:
        out, said = child.communicate(timeout=120)
    finally:
        left = left_after(child.pid, 10)
    assert left == []
    return subprocess.CompletedProcess(command, child.returncode, out, said)


@contextmanager
def ended_after(process: subprocess.Popen[str], seconds: float) -> Iterator[None]:
    """A deadline for whoever reads what a process says: it is ended then, and the reading with it."""
    timer = Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Head:
    """`ray start --head` on loopback, and its addresses."""

    def __init__(self, *, cpus: int = 2, **more: str) -> None:
        with socket.socket() as one, socket.socket() as two:
            ports = []
            for free in (one, two):
                free.bind(("127.0.0.1", 0))
                ports.append(free.getsockname()[1])
        self.gcs, self.client = (f"127.0.0.1:{port}" for port in ports)
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
        command += [f"--port={ports[0]}", f"--ray-client-server-port={ports[1]}", f"--num-cpus={cpus}"]
        command += ["--node-ip-address=127.0.0.1", "--include-dashboard=false", "--disable-usage-stats"]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(**more),
            start_new_session=True,
        )
        assert self.process.stdout is not None
        with ended_after(self.process, 60):
            for line in self.process.stdout:
                if "block forever" in line:
                    return
        self.stop()
        raise AssertionError("ray start ended, or was not ready within a minute")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.communicate(timeout=30)
        finally:
            left_after(self.process.pid, 10)


@pytest.fixture(scope="class")
def head(needs_ray: None) -> Iterator[Head]:
    """One cluster for all tests of a class; it is gone before those that want none on this machine."""
    started = Head()
    yield started
    started.stop()


def best(done: subprocess.CompletedProcess[str]) -> object:
    assert done.stderr == ""
    return json.loads(done.stdout)


ONLY_HERE = """
from edgegpt.planner.search import Job, search_range

class OurJob(Job): ...

def task(*_): return 1
"""


class TestARunningCluster:
    @pytest.mark.slow
    def test_it_finds_what_one_process_finds(self, head: Head, budget: str) -> None:
        here = best(run("--budget", budget, *FEW, "--workers", "1"))
        for address in (head.gcs, "auto", f"ray://{head.client}"):
            assert best(run("--budget", budget, *FEW, "--ray", address)) == here

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("client", "job", "task"),
        [
            (False, "Job", "only_here.task"),
            (True, "Job", "only_here.task"),
            (True, "only_here.OurJob", "search_range"),  # which the client's door reads in the head, at once
        ],
    )
    def test_it_says_that_its_machines_lack_the_code_in_one_sentence(
        self, client: bool, job: str, task: str, head: Head, tmp_path: Path
    ) -> None:
        (tmp_path / "only_here.py").write_text(ONLY_HERE)
        address = f"ray://{head.client}" if client else head.gcs
        script = (
            f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
            "import only_here\n"
            "from edgegpt.errors import ConfigError\n"
            "from edgegpt.planner.limits import Limits\n"
            "from edgegpt.planner.ray_backend import ray_cluster\n"
            "from edgegpt.planner.search import Job, search_range\n"
            "from edgegpt.planner.space import Space\n"
            "try:\n"
            f"    job = {job}(Space(), Limits({{}}, 32), None, 1)\n"
            f"    with ray_cluster(job, {address!r}, print) as spread:\n"
            f"        list(spread({task}))\n"
            "except ConfigError as e:\n"
            "    print(e)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env=environment()
        )
        assert done.stdout == (
            f"the Ray cluster at {address} failed: ModuleNotFoundError: No module named 'only_here'; its "
            "machines need this edgegpt\n"
        )


@pytest.mark.slow
@pytest.mark.usefixtures("needs_ray")
def test_a_cluster_of_its_own_finds_it_too_and_leaves_no_process(budget: str, tmp_path: Path) -> None:
    here = run("--budget", budget, *FEW, "--workers", "1")
    assert best(run("--budget", budget, *FEW, "--ray", "local")) == best(here)
    Path(budget).write_text(yaml.safe_dump({"name": "hand", "artifact_mb": 0.001}))
    done = run("--budget", budget, *FEW, "--ray", "local")  # both passes on one cluster
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "artifact_mb binds" in done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("needs_ray")
def test_a_cluster_with_a_token_wants_it(budget: str) -> None:
    head = Head(**TOKEN)
    try:
        assert best(run("--budget", budget, *FEW, "--ray", head.gcs, **TOKEN))
        done = run("--budget", budget, *FEW, "--ray", head.gcs)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "wants RAY_AUTH_MODE=token and RAY_AUTH_TOKEN" in done.stderr
    finally:
        head.stop()


@pytest.mark.slow
@pytest.mark.usefixtures("needs_ray")
def test_without_a_cluster_on_this_machine_auto_says_so(budget: str) -> None:
    done = run("--budget", budget, *FEW, "--ray", "auto")
    assert done.stderr == (
        "edgegpt: no Ray cluster runs on this machine; give the host:port of one, or local\n"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("needs_ray")
def test_a_cluster_without_a_free_cpu_is_waited_for_and_said(budget: str, tmp_path: Path) -> None:
    head = Head(cpus=0)
    command = [sys.executable, "-m", "edgegpt", "plan", "--budget", budget, *FEW, "--ray", head.gcs]
    waiting = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=environment(), start_new_session=True
    )
    try:
        assert waiting.stderr is not None
        with ended_after(waiting, 120):
            assert waiting.stderr.readline() == (
                f"edgegpt: waiting for the Ray cluster at {head.gcs}, which has 0 of its 0 CPUs free\n"
            )
            time.sleep(0.5)  # else rich, still about to print that line, prints it again
            waiting.send_signal(signal.SIGINT)
            assert waiting.stderr.read() == "edgegpt: interrupted\n"
            assert waiting.wait() == 130
    finally:
        waiting.kill()
        left_after(waiting.pid, 10)
        head.stop()


@pytest.mark.slow
@pytest.mark.usefixtures("needs_ray")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_search_that_is_ended_takes_its_own_cluster_with_it(how: signal.Signals, budget: str) -> None:
    command = [sys.executable, "-m", "edgegpt", "plan", "--budget", budget, "--json", "--ray", "local"]
    child = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=environment(), start_new_session=True
    )
    try:
        with ended_after(child, 60):
            while len(session(child.pid)) < 6:  # the cluster is there
                assert child.poll() is None
                time.sleep(0.05)
            time.sleep(1)
        child.send_signal(how)
        _, said = child.communicate(timeout=60)
        if how == signal.SIGINT:
            assert said == "edgegpt: interrupted\n"
    finally:
        child.kill()
        left = left_after(child.pid, 20)
    # Of a cluster that was ended while it started, Ray's agents look for it for a minute before they end too.
    assert [command for command in left if not command.startswith("ray::")] == []
