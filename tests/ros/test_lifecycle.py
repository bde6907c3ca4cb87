"""States of the node: what it does in each, and how it gets from one to the next."""

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from edgegpt_msgs.action import Generate
from edgegpt_msgs.msg import ErrorCode
from edgegpt_msgs.srv import CountTokens

from .generator_process import GeneratorProcess
from .peer import Peer, until
from .workspace import environment, own_domain

SLOW = {"step_ms": 100, "endless": 1}  # its longest answer takes half a minute
FOREVER = 100  # seconds of work that no test waits for
MEGABYTES = "drive forward two metres and stop " * 120_000  # four; counting them takes seconds
WAY_OUT = {"configuring": "wait until it is active", "finalized": "start it again"}


@pytest.fixture
def domain() -> Iterator[int]:
    with own_domain() as domain:
        yield domain


def refused_at_every_door(peer: Peer, state: str) -> None:
    sentence = f"the node is {state} and takes no requests; {WAY_OUT.get(state, 'activate it')}"
    goal = peer.goal("stop")
    assert goal.end() == ("aborted", "error", ErrorCode.NOT_ACTIVE)
    assert goal.result().error == sentence
    assert [chunk.text for chunk in goal.chunks()] == [""]  # who watches the topic is told too
    assert peer.complete("stop").error == sentence
    assert peer.count("stop").error_code == ErrorCode.NOT_ACTIVE
    assert peer.say("stop") == ""


def status_of(peer: Peer) -> DiagnosticStatus:
    return peer.latest(DiagnosticArray, "/diagnostics").status[0]


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
        until(lambda: "bad.onnx" in process.text or "model is not set" in process.text, "sentence")
        until(lambda: peer.state() == "unconfigured", "end of the first try")
        assert peer.change("configure") is False
        refused_at_every_door(peer, "unconfigured")
        status = status_of(peer)
        assert status.level == DiagnosticStatus.ERROR
        assert "bad.onnx" in status.message or "model is not set" in status.message
        assert peer.set(model=str(model_file))[0].successful
        assert peer.change("configure", "activate")
        assert peer.complete("stop").text
        assert status_of(peer).level == DiagnosticStatus.OK


def test_a_model_beyond_its_budget_is_not_configured(domain: int, model_file: Path, tmp_path: Path) -> None:
    tight, wide = tmp_path / "tight.yaml", tmp_path / "wide.yaml"
    tight.write_text("name: tight\nparameters: 1000\nartifact_mb: 0.5\n")
    wide.write_text(
        "name: wide\nparameters: 100000000\nartifact_mb: 500\nkv_cache_mb: 500\nttft_ms: {p50: 15}\n"
    )
    parameters = {"model": model_file, "budget": tight}
    with GeneratorProcess(environment(domain), parameters) as process, Peer(domain) as peer:
        peer.wait_for_node()
        until(lambda: "exceeds the budget 'tight': parameters is" in process.text, "sentence")
        until(lambda: peer.state() == "unconfigured", "end of the first try")
        assert "artifact_mb is" in process.text
        assert peer.set(budget=str(tmp_path / "none.yaml"))[0].successful
        assert peer.change("configure") is False
        assert peer.set(budget=str(wide))[0].successful
        assert peer.change("configure", "activate")
        until(lambda: "its ttft_ms are not judged here" in process.text, "word on what was not judged")


def test_deactivating_ends_the_goal_at_work_and_activating_serves_again(
    domain: int, model_file: Path
) -> None:
    parameters = {"model": model_file, "max_new_tokens": 300, "chunk_ms": 0}
    with GeneratorProcess(environment(domain), parameters, faults=SLOW), Peer(domain) as peer:
        peer.wait_for_node()
        until(lambda: peer.state() == "active", "active node")
        running = peer.goal("stop", session="s")
        waiting = peer.goal("stop")
        until(lambda: len(running.feedback) > 2, "feedback")
        began = time.monotonic()
        assert peer.change("deactivate")
        assert time.monotonic() - began < 5  # and not half a minute
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
        assert process.stop(number) == 0
        assert process.took < 2
        assert goal.end() == ("aborted", "cancelled", ErrorCode.NOT_ACTIVE)
        assert goal.result().text
        assert "Traceback" not in process.text
        # It has said goodbye; who is merely gone is missed only after many seconds.
        until(lambda: "edgegpt" not in peer.node.get_node_names(), "end of the node in the graph", 10)


def test_goals_that_come_too_late_leave_no_warning(domain: int, model_file: Path) -> None:
    with GeneratorProcess(environment(domain), {"model": model_file}) as process, Peer(domain) as peer:
        peer.wait_for_node()
        until(lambda: peer.state() == "active", "active node")
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
            assert process.stop(signal.SIGTERM) == 0
        finally:
            ended.set()
            flooding.join()
        assert process.took < 2
        assert "never awaited" not in process.text


def test_a_second_signal_at_any_moment_changes_nothing(domain: int, model_file: Path) -> None:
    for gap_s in (0.1, 0.2, 0.25, 0.3):  # Python itself ends in the last of the 0.35 s that it takes
        process = GeneratorProcess(environment(domain), {"model": model_file})
        until(lambda process=process: "active: " in process.text, "active node")
        process.process.send_signal(signal.SIGINT)
        time.sleep(gap_s)
        assert process.stop(signal.SIGINT) == 0


@pytest.mark.parametrize("delay_s", [0.05, 0.4, 0.8])
def test_a_signal_during_the_start_ends_it_too(domain: int, model_file: Path, delay_s: float) -> None:
    process = GeneratorProcess(environment(domain), {"model": model_file})
    time.sleep(delay_s)
    code = process.stop(signal.SIGTERM)
    assert process.took < 2
    assert code in (0, -signal.SIGTERM)  # before the first line of ours, Python's own way
    assert "Traceback" not in process.text


def test_while_a_model_loads_every_door_answers_and_a_signal_ends_the_node(
    domain: int, model_file: Path
) -> None:
    process = GeneratorProcess(environment(domain), {"model": model_file}, faults={"load_s": FOREVER})
    with process, Peer(domain) as peer:
        peer.wait_for_node()
        assert peer.state() == "configuring"
        took = []
        for _ in range(3):
            began = time.monotonic()
            refused_at_every_door(peer, "configuring")
            took.append(time.monotonic() - began)
        assert min(took) < 1
        for transition in ("configure", "activate", "cleanup", "shutdown"):
            assert peer.change(transition) is False  # another one is under way
        [result] = peer.set(model="other.onnx")
        assert "model can be changed only while the node is unconfigured" in result.reason
        assert peer.set(temperature=0.5)[0].successful
        for _ in range(2):
            status = status_of(peer)
            assert (status.level, status.message) == (DiagnosticStatus.WARN, "the node is configuring")
            assert status.hardware_id == ""
        assert peer.state() == "configuring"
        assert process.stop(signal.SIGTERM) == 0
        assert process.took < 2


def test_what_is_set_while_the_model_loads_counts_once_it_is_active(domain: int, model_file: Path) -> None:
    process = GeneratorProcess(environment(domain), {"model": model_file}, faults={"load_s": 8})
    with process, Peer(domain) as peer:
        peer.wait_for_node()
        assert peer.state() == "configuring"
        assert peer.set(max_new_tokens=2)[0].successful
        until(lambda: peer.state() == "active", "active node")
        until(lambda: not peer.complete("drive forward two metres").error_code, "answer")
        assert peer.complete("drive forward two metres").finish_reason == "length"


def fill_the_counter(peer: Peer) -> list[Any]:
    """One long count at work and seven that wait; the next ones were refused."""
    counts = [peer.ask("count_tokens", CountTokens.Request(prompt=MEGABYTES))]
    counts += [peer.ask("count_tokens", CountTokens.Request(prompt="stop")) for _ in range(9)]
    for future in counts[8:]:
        answer = peer.wait(future)
        assert answer.error_code == ErrorCode.REJECTED
        assert answer.error == "8 texts wait to be counted already; try again later"
    return counts[:8]


def test_megabytes_are_counted_beside_all_other_work_and_a_signal_ends_it(
    domain: int, model_file: Path
) -> None:
    with GeneratorProcess(environment(domain), {"model": model_file}) as process, Peer(domain) as peer:
        peer.wait_for_node()
        until(lambda: peer.state() == "active", "active node")
        long, *short = fill_the_counter(peer)
        assert peer.complete("stop").text
        assert not long.done()
        assert peer.change("deactivate")
        for future in (long, *short):
            assert peer.wait(future).error_code == ErrorCode.NOT_ACTIVE
        assert peer.change("activate")
        until(lambda: peer.count("stop").tokens, "count")
        long, *_ = fill_the_counter(peer)
        assert peer.complete("stop").text
        assert process.stop(signal.SIGTERM) == 0
        assert process.took < 2
        assert peer.wait(long).error_code == ErrorCode.NOT_ACTIVE


def test_a_call_of_the_model_that_does_not_return_holds_up_neither_doors_nor_the_end(
    domain: int, model_file: Path
) -> None:
    faults = {"hang_s": FOREVER, "endless": 1}
    with (
        GeneratorProcess(environment(domain), {"model": model_file, "chunk_ms": 0}, faults=faults) as process,
        Peer(domain) as peer,
    ):
        peer.wait_for_node()
        until(lambda: peer.state() == "active", "active node")
        goal = peer.goal("stop")
        until(lambda: len(goal.feedback) > 4, "feedback")
        assert peer.change("deactivate") is False
        assert "deactivating failed: the model is in a call" in process.text
        assert peer.state() == "active"
        assert status_of(peer).message == "busy"
        assert process.stop(signal.SIGTERM) == 0
        assert process.took < 2
        assert "the node ends while a call of the model, or its loading, is under way" in process.text


def test_ten_rounds_of_life_leave_the_memory_flat(domain: int, model_file: Path) -> None:
    parameters = {"model": model_file, "autostart": "false"}
    with GeneratorProcess(environment(domain), parameters) as process, Peer(domain) as peer:
        peer.wait_for_node()

        def live(rounds: int) -> int:
            for _ in range(rounds):
                assert peer.change("configure", "activate")
                assert peer.complete("stop", session="s").text
                assert peer.change("deactivate", "cleanup")
            return process.rss_bytes()

        before = live(3)
        assert live(10) - before < model_file.stat().st_size  # not even one model is left behind


def test_diagnostics_name_the_model_only_while_there_is_one(domain: int, model_file: Path) -> None:
    parameters = {"model": model_file, "max_new_tokens": 100_000, "autostart": "false"}
    with GeneratorProcess(environment(domain), parameters), Peer(domain) as peer:
        peer.wait_for_node()
        assert status_of(peer).level == DiagnosticStatus.WARN
        assert peer.change("configure") is False
        status = status_of(peer)
        assert (status.level, status.hardware_id) == (DiagnosticStatus.ERROR, "")
        assert status.message.startswith("max_new_tokens must be below the model's context, got 100000 and ")
        assert peer.set(max_new_tokens=5)[0].successful
        assert status_of(peer).level == DiagnosticStatus.ERROR  # until it has been configured
        assert peer.change("configure")
        [result] = peer.set(max_new_tokens=100_000)
        assert "max_new_tokens must be below the model's context" in result.reason
        status = status_of(peer)
        assert (status.level, status.hardware_id) == (DiagnosticStatus.WARN, model_file.stem)
        assert peer.change("cleanup")
        assert status_of(peer).hardware_id == ""


def test_a_wrong_value_at_the_start_is_in_the_diagnostics_of_a_node_that_waits(
    domain: int, model_file: Path
) -> None:
    parameters = {"model": model_file, "temperature": "hot", "autostart": "false"}
    with GeneratorProcess(environment(domain), parameters), Peer(domain) as peer:
        peer.wait_for_node()
        status = status_of(peer)
        assert status.level == DiagnosticStatus.ERROR
        assert "temperature must be of type double, got 'hot'" in status.message
        assert peer.set(temperature=1.0)[0].successful
        assert status_of(peer).level == DiagnosticStatus.WARN


def test_an_argument_that_ros_does_not_understand_is_one_sentence(domain: int) -> None:
    process = GeneratorProcess(environment(domain), {"model": "["})
    assert process.process.wait(20) == 2
    process.stop()
    assert [line for line in process.output if "edgegpt cannot start" in line]
    assert "Traceback" not in process.text
