"""States of the node: what it does in each, and how it gets from one to the next."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from edgegpt_msgs.msg import ErrorCode

from .generator_process import GeneratorProcess
from .peer import Peer, until
from .workspace import environment, own_domain

SLOW = {"step_ms": 20, "endless": 1}


@pytest.fixture
def domain() -> Iterator[int]:
    with own_domain() as domain:
        yield domain


def refused_at_every_door(peer: Peer, state: str) -> None:
    sentence = f"the node is {state} and takes no requests; activate it"
    began = time.monotonic()
    goal = peer.goal("stop")
    assert goal.end() == ("aborted", "error", ErrorCode.NOT_ACTIVE)
    assert goal.result().error == sentence
    assert peer.complete("stop").error == sentence
    assert peer.count("stop").error_code == ErrorCode.NOT_ACTIVE
    assert peer.say("stop") == ""
    assert time.monotonic() - began < 2


def test_a_node_that_does_not_start_itself_is_led_through_its_life(domain: int, model_file: Path) -> None:
    parameters = {"model": model_file, "autostart": "false"}
    with GeneratorProcess(environment(domain), parameters), Peer(domain) as peer:
        peer.wait_for_node()
        assert peer.state() == "unconfigured"
        refused_at_every_door(peer, "unconfigured")
        assert peer.change("activate") is False  # rclpy alone dies of it
        assert peer.change("configure")
        assert peer.change("configure") is False
        refused_at_every_door(peer, "inactive")
        for _ in range(2):
            assert peer.change("activate")
            assert peer.complete("stop").text
            assert peer.change("deactivate")
            refused_at_every_door(peer, "inactive")
        assert peer.change("cleanup")
        refused_at_every_door(peer, "unconfigured")
        assert peer.change("configure", "activate", "shutdown")
        assert peer.state() == "finalized"
        refused_at_every_door(peer, "finalized")
        assert peer.change("configure") is False


@pytest.mark.parametrize("bad", ["missing", "damaged", "unset"])
def test_configuring_fails_on_a_bad_model_and_then_works_on_a_good_one(
    domain: int, model_file: Path, tmp_path: Path, bad: str
) -> None:
    file = tmp_path / "bad.onnx"
    if bad == "damaged":
        file.write_bytes(model_file.read_bytes()[:100_000])
    parameters = {} if bad == "unset" else {"model": file}
    with GeneratorProcess(environment(domain), parameters) as process, Peer(domain) as peer:
        peer.wait_for_node()
        assert peer.state() == "unconfigured"
        assert "bad.onnx" in process.text or "model is not set" in process.text
        assert peer.change("configure") is False
        refused_at_every_door(peer, "unconfigured")
        status = peer.latest(DiagnosticArray, "/diagnostics").status[0]
        assert status.level == DiagnosticStatus.ERROR
        assert "bad.onnx" in status.message or "model is not set" in status.message
        assert peer.set(model=str(model_file))[0].successful
        assert peer.change("configure", "activate")
        assert peer.complete("stop").text


def test_a_model_beyond_its_budget_is_not_configured(domain: int, model_file: Path, tmp_path: Path) -> None:
    tight, wide = tmp_path / "tight.yaml", tmp_path / "wide.yaml"
    tight.write_text("name: tight\nparameters: 1000\nartifact_mb: 0.5\n")
    wide.write_text(
        "name: wide\nparameters: 100000000\nartifact_mb: 500\nkv_cache_mb: 500\nttft_ms: {p50: 15}\n"
    )
    parameters = {"model": model_file, "budget": tight}
    with GeneratorProcess(environment(domain), parameters) as process, Peer(domain) as peer:
        peer.wait_for_node()
        assert peer.state() == "unconfigured"
        assert "exceeds the budget 'tight': parameters is" in process.text
        assert "artifact_mb is" in process.text
        assert peer.set(budget=str(tmp_path / "none.yaml"))[0].successful
        assert peer.change("configure") is False
        assert peer.set(budget=str(wide))[0].successful
        assert peer.change("configure", "activate")
        until(lambda: "its ttft_ms are not judged here" in process.text, "word on what was not judged")


def test_deactivating_ends_the_goal_at_work_and_activating_serves_again(
    domain: int, model_file: Path
) -> None:
    parameters = {"model": model_file, "max_new_tokens": 200, "chunk_ms": 0}
    with GeneratorProcess(environment(domain), parameters, faults=SLOW), Peer(domain) as peer:
        peer.wait_for_node()
        until(lambda: peer.state() == "active", "active node")
        running = peer.goal("stop", session="s")
        waiting = peer.goal("stop")
        until(lambda: len(running.feedback) > 2, "feedback")
        began = time.monotonic()
        assert peer.change("deactivate")
        assert time.monotonic() - began < 1
        for goal in (running, waiting):
            assert goal.end() == ("aborted", "cancelled", ErrorCode.NOT_ACTIVE)
        assert running.result().text.startswith("".join(chunk.text for chunk in running.chunks())[:-1])
        assert waiting.result().text == ""
        assert peer.change("activate")
        again = peer.goal("stop", session="s", max_new_tokens=3)
        assert again.end() == ("succeeded", "length", ErrorCode.OK)
        assert again.result().stats.cached_tokens == 0  # the turn that was ended left no trace


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_node_within_two_seconds_while_it_generates(
    domain: int, model_file: Path, number: int
) -> None:
    parameters = {"model": model_file, "max_new_tokens": 200, "chunk_ms": 0}
    with GeneratorProcess(environment(domain), parameters, faults=SLOW) as process, Peer(domain) as peer:
        peer.wait_for_node()
        until(lambda: peer.state() == "active", "active node")
        goal = peer.goal("stop")
        until(lambda: len(goal.feedback) > 2, "feedback")
        began = time.monotonic()
        assert process.stop(number) == 0
        assert time.monotonic() - began < 2
        assert goal.end() == ("aborted", "cancelled", ErrorCode.NOT_ACTIVE)
        assert goal.result().text
        assert "Traceback" not in process.text
        # It has said goodbye; who is merely gone is missed only after many seconds.
        until(lambda: "edgegpt" not in peer.node.get_node_names(), "end of the node in the graph", 3)


@pytest.mark.parametrize("delay_s", [0.05, 0.4, 0.8])
def test_a_signal_during_the_start_ends_it_too(domain: int, model_file: Path, delay_s: float) -> None:
    process = GeneratorProcess(environment(domain), {"model": model_file})
    time.sleep(delay_s)
    began = time.monotonic()
    code = process.stop(signal.SIGTERM)
    assert time.monotonic() - began < 2
    assert code in (0, -signal.SIGTERM)  # before the first line of ours, Python's own way
    assert "Traceback" not in process.text


def test_an_argument_that_ros_does_not_understand_is_one_sentence(domain: int) -> None:
    process = GeneratorProcess(environment(domain), {"model": "["})
    assert process.process.wait(20) == 2
    process.stop()
    assert [line for line in process.output if "edgegpt cannot start" in line]
    assert "Traceback" not in process.text
