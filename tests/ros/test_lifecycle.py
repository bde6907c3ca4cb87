"""States of the node: what it does in each, and the transitions between them."""

import os
import time
from pathlib import Path

import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from edgegpt_msgs.msg import ErrorCode, ModelInfo

from .helpers.peer import refused_by_every_interface, until
from .helpers.robot import generator_and_peer

SLOW = {"step_ms": 100, "endless": 1}  # its longest answer takes half a minute


def test_a_node_without_autostart_is_led_through_its_states(model_file: Path) -> None:
    parameters = {"model": model_file, "autostart": "false"}
    with generator_and_peer(parameters, active=False) as (_, peer):
        assert peer.state() == "unconfigured"
        refused_by_every_interface(peer, "unconfigured")
        assert peer.change("activate") is False  # rclpy alone would end with it
        assert peer.change("configure")
        assert peer.change("configure") is False
        refused_by_every_interface(peer, "inactive")
        for _ in range(2):
            assert peer.change("activate")
            assert peer.complete("stop").text
            assert peer.change("deactivate")
            refused_by_every_interface(peer, "inactive")
        assert peer.change("cleanup")
        refused_by_every_interface(peer, "unconfigured")
        assert peer.change("configure", "activate", "shutdown")
        assert peer.state() == "finalized"
        refused_by_every_interface(peer, "finalized")
        assert peer.change("configure") is False


@pytest.mark.parametrize("bad", ["missing", "damaged", "unset"])
def test_configuring_fails_on_a_bad_model_and_then_works_on_a_good_one(
    model_file: Path, tmp_path: Path, bad: str
) -> None:
    file = tmp_path / "bad.onnx"
    if bad == "damaged":
        file.write_bytes(model_file.read_bytes()[:100_000])
    parameters = {} if bad == "unset" else {"model": file}
    named = "model" if bad == "unset" else "bad.onnx"
    with generator_and_peer(parameters, active=False) as (process, peer):
        until(lambda: named in process.text, "error in the log")
        until(lambda: peer.state() == "unconfigured", "end of the first try")
        assert peer.change("configure") is False
        refused_by_every_interface(peer, "unconfigured")
        status = peer.status()
        assert status.level == DiagnosticStatus.ERROR
        assert named in status.message
        assert peer.set(model=str(model_file))[0].successful
        assert peer.change("configure", "activate")
        assert peer.complete("stop").text
        assert peer.status().level == DiagnosticStatus.OK


def test_a_model_that_exceeds_its_budget_is_not_configured(model_file: Path, tmp_path: Path) -> None:
    tight, wide = tmp_path / "tight.yaml", tmp_path / "wide.yaml"
    tight.write_text("name: tight\nparameters: 1000\nartifact_mb: 0.5\npeak_rss_mb: 1\nkv_cache_mb: 500\n")
    wide.write_text(
        "name: wide\nparameters: 100000000\nartifact_mb: 500\nkv_cache_mb: 500\nttft_ms: {p50: 15}\n"
    )
    parameters = {"model": model_file, "budget": tight, "autostart": "false"}
    with generator_and_peer(parameters, active=False) as (process, peer):
        assert peer.change("configure") is False
        message = peer.status().message
        for named in ("tight", "parameters", "1,000", "artifact_mb", "0.5", "peak_rss_mb"):
            assert named in message
        assert "kv_cache_mb" not in message  # is kept
        assert peer.set(budget=str(tmp_path / "none.yaml"))[0].successful
        assert peer.change("configure") is False
        assert peer.set(budget=str(wide))[0].successful
        assert peer.change("configure", "activate")
        until(lambda: "ttft_ms" in process.text, "log of the limit that the node does not judge")


def test_a_budget_that_is_a_pipe_is_refused_without_waiting(model_file: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "budget.yaml"
    os.mkfifo(pipe)
    parameters = {"model": model_file, "budget": pipe, "autostart": "false"}
    with generator_and_peer(parameters, active=False) as (_, peer):
        assert peer.change("configure") is False
        assert str(pipe) in peer.status().message


@pytest.mark.alone
def test_deactivating_ends_the_running_goal_and_activating_serves_again(model_file: Path) -> None:
    parameters = {"model": model_file, "max_new_tokens": 300, "chunk_ms": 0}
    with generator_and_peer(parameters, faults=SLOW) as (_, peer):
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


def test_a_parameter_set_while_the_model_loads_is_used_once_it_is_active(model_file: Path) -> None:
    with generator_and_peer({"model": model_file}, faults={"load_s": 8}, active=False) as (_, peer):
        assert peer.state() == "configuring"
        assert peer.set(max_new_tokens=2)[0].successful
        until(lambda: peer.state() == "active", "active node")
        until(lambda: not peer.complete("drive forward").error_code, "answer")
        assert peer.complete("drive forward").finish_reason == "length"


def test_ten_rounds_of_life_leave_the_memory_flat(model_file: Path) -> None:
    parameters = {"model": model_file, "autostart": "false"}
    with generator_and_peer(parameters, active=False) as (process, peer):

        def live(rounds: int) -> int:
            for _ in range(rounds):
                assert peer.change("configure", "activate")
                assert peer.complete("stop", session="s").text
                assert peer.change("deactivate", "cleanup")
            return process.rss_bytes()

        before = live(3)
        assert live(10) - before < model_file.stat().st_size  # not even one model is left behind


def test_diagnostics_name_the_problem_and_the_model_only_while_there_is_one(model_file: Path) -> None:
    parameters = {"model": model_file, "max_new_tokens": 100_000, "autostart": "false"}
    with generator_and_peer(parameters, active=False) as (_, peer):
        assert peer.status().level == DiagnosticStatus.WARN
        assert peer.change("configure") is False
        status = peer.status()
        assert (status.level, status.hardware_id) == (DiagnosticStatus.ERROR, "")
        assert "max_new_tokens" in status.message
        assert "100000" in status.message
        assert peer.set(max_new_tokens=5)[0].successful
        assert peer.status().level == DiagnosticStatus.ERROR  # until it has been configured
        assert peer.change("configure")
        assert "max_new_tokens" in peer.set(max_new_tokens=100_000)[0].reason
        status = peer.status()
        assert (status.level, status.hardware_id) == (DiagnosticStatus.WARN, model_file.stem)
        assert peer.change("cleanup")
        assert peer.status().hardware_id == ""


def test_model_info_is_empty_for_a_late_subscriber_once_the_model_is_freed(model_file: Path) -> None:
    with generator_and_peer({"model": model_file}) as (_, peer):

        def named() -> str:
            return peer.latest(ModelInfo, "model_info", latched=True).name

        assert named() == model_file.stem
        assert peer.change("deactivate")
        assert named() == model_file.stem  # still loaded
        assert peer.change("cleanup")
        assert peer.latest(ModelInfo, "model_info", latched=True) == ModelInfo()
        assert peer.set(max_new_tokens=3)[0].successful  # publishes what is loaded: nothing
        assert named() == ""
        assert peer.change("configure")
        assert named() == model_file.stem
