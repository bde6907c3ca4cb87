"""How the node ends: soon after a signal, whatever it is doing."""

import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from edgegpt_msgs.action import Generate
from edgegpt_msgs.msg import ErrorCode
from edgegpt_msgs.srv import CountTokens

from .helpers.peer import Peer, refused_by_every_interface, until
from .helpers.process import GeneratorProcess
from .helpers.robot import generator_and_peer

pytestmark = pytest.mark.alone  # they promise how soon the node ends

SLOW = {"step_ms": 100, "endless": 1}  # its longest answer takes twenty seconds
FOREVER = 100  # seconds of work that no test waits for
LONG = "drive forward two metres and stop " * 1000
COUNT_S = 4  # seconds that counting LONG takes


def ends_soon(process: GeneratorProcess, number: int = signal.SIGTERM) -> None:
    """Send a signal, and assert that the process ends cleanly within two seconds."""
    assert process.stop(number) == 0
    assert process.took < 2
    assert "Traceback" not in process.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_generating_node_and_its_client_gets_the_text_so_far(
    model_file: Path, number: int
) -> None:
    parameters = {"model": model_file, "max_new_tokens": 200, "chunk_ms": 0}
    with generator_and_peer(parameters, faults=SLOW) as (process, peer):
        goal = peer.goal("stop")
        until(lambda: len(goal.feedback) > 2, "feedback")
        ends_soon(process, number)
        assert goal.end() == ("aborted", "cancelled", ErrorCode.NOT_ACTIVE)
        assert goal.result().text
        # It has left the graph; a node that merely dies stays there for many seconds.
        until(lambda: "edgegpt" not in peer.node.get_node_names(), "end of the node in the graph", 10)


def test_goals_that_come_too_late_leave_no_warning(model_file: Path) -> None:
    with generator_and_peer({"model": model_file}) as (process, peer):
        ended = threading.Event()

        def send() -> None:
            for _ in range(60):
                peer.action.send_goal_async(Generate.Goal(prompt="stop"))

        def flood() -> None:
            while not ended.wait(0.03):
                peer.executor.create_task(send)

        flooding = threading.Thread(target=flood)
        flooding.start()
        try:
            time.sleep(0.2)  # until more wait than the node can begin before it ends
            ends_soon(process)
        finally:
            ended.set()
            flooding.join()
        assert "never awaited" not in process.text


def test_a_second_signal_at_any_moment_changes_nothing(ros_env: dict[str, str], model_file: Path) -> None:
    for gap_s in (0.1, 0.2, 0.25, 0.3):  # Python itself ends in the last of the 0.35 s that it takes
        with GeneratorProcess(ros_env, {"model": model_file}) as process:
            until(lambda process=process: "active: " in process.text, "active node")
            process.process.send_signal(signal.SIGINT)
            time.sleep(gap_s)
            assert process.stop(signal.SIGINT) == 0


@pytest.mark.parametrize("delay_s", [0.05, 0.4, 0.8])
def test_a_signal_during_the_start_ends_it_too(
    ros_env: dict[str, str], model_file: Path, delay_s: float
) -> None:
    process = GeneratorProcess(ros_env, {"model": model_file})
    time.sleep(delay_s)
    code = process.stop(signal.SIGTERM)
    assert process.took < 2
    assert code in (0, -signal.SIGTERM)  # before our first line, Python's default
    assert "Traceback" not in process.text


def test_while_a_model_loads_every_interface_answers_and_a_signal_ends_the_node(model_file: Path) -> None:
    parameters = {"model": model_file}
    with generator_and_peer(parameters, faults={"load_s": FOREVER}, active=False) as (process, peer):
        assert peer.state() == "configuring"
        took = []
        for _ in range(3):
            began = time.monotonic()
            refused_by_every_interface(peer, "configuring")
            took.append(time.monotonic() - began)
        assert min(took) < 1
        for transition in ("configure", "activate", "cleanup", "shutdown"):
            assert peer.change(transition) is False  # another one is running
        assert "model" in peer.set(model="other.onnx")[0].reason
        assert peer.set(temperature=0.5)[0].successful
        for _ in range(2):
            status = peer.status()
            assert (status.level, status.hardware_id) == (DiagnosticStatus.WARN, "")
            assert "configuring" in status.message
        assert peer.state() == "configuring"
        ends_soon(process)


def fill_the_counter(peer: Peer) -> list[Any]:
    """Ask for one long count, which runs, and seven that wait; two more are refused."""
    counts = [peer.ask("count_tokens", CountTokens.Request(prompt=LONG))]
    counts += [peer.ask("count_tokens", CountTokens.Request(prompt="stop")) for _ in range(9)]
    for future in counts[8:]:
        assert peer.wait(future).error_code == ErrorCode.REJECTED
    return counts[:8]


def test_long_texts_are_counted_without_delay_for_others_and_a_signal_ends_it(model_file: Path) -> None:
    with generator_and_peer({"model": model_file}, faults={"count_s": COUNT_S}) as (process, peer):
        long, *short = fill_the_counter(peer)
        assert peer.complete("stop").text
        assert peer.goal("stop").end()[0] == "succeeded"
        assert not long.done()
        assert peer.change("deactivate")
        for future in (long, *short):
            assert peer.wait(future).error_code == ErrorCode.NOT_ACTIVE
        assert peer.change("activate")
        until(lambda: peer.count("stop").tokens, "count")
        assert peer.count(LONG).tokens > 5000
        long, *_ = fill_the_counter(peer)
        ends_soon(process)
        assert peer.wait(long).error_code == ErrorCode.NOT_ACTIVE


def test_a_call_of_the_model_that_hangs_delays_neither_the_interfaces_nor_the_end(model_file: Path) -> None:
    faults = {"hang_s": FOREVER, "endless": 1}
    with generator_and_peer({"model": model_file, "chunk_ms": 0}, faults=faults) as (process, peer):
        goal = peer.goal("stop")
        until(lambda: len(goal.feedback) > 4, "feedback")
        assert peer.change("deactivate") is False
        assert peer.state() == "active"
        assert peer.status().message == "busy"
        ends_soon(process)
