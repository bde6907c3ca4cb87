"""Parameters are checked before they are used, and a refusal names the wrong value."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticStatus
from edgegpt_msgs.msg import ModelInfo
from edgegpt_ros.parameters import PARAMETERS, Parameters
from rcl_interfaces.srv import DescribeParameters
from rclpy.node import Node
from rclpy.parameter import Parameter

from .helpers.peer import Peer, until
from .helpers.process import WORKSPACE, own_domain
from .helpers.robot import generator_and_peer

README = (WORKSPACE / "src" / "edgegpt_ros" / "README.md").read_text(encoding="utf-8")
NAMES = [entry.name for entry in PARAMETERS]


@pytest.fixture(scope="module")
def peer(model_file: Path) -> Iterator[Peer]:
    # Integers for doubles: rclpy alone would end the node.
    doubles = {"temperature": 0, "chunk_ms": 5, "session_ttl_s": 60}
    with generator_and_peer({"model": model_file, "threads": 0, "stop": [], **doubles}) as (_, peer):
        yield peer


def test_a_double_accepts_an_integer(peer: Peer) -> None:
    assert peer.get("temperature", "chunk_ms", "session_ttl_s") == [0.0, 5.0, 60.0]
    assert peer.set(temperature=1)[0].successful
    assert peer.get("temperature") == [1.0]


def test_0_threads_is_one_where_the_file_was_not_tuned(peer: Peer) -> None:
    assert peer.get("threads") == [0]
    assert peer.latest(ModelInfo, "model_info", latched=True).threads == 1


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("temperature", 2000.0, "temperature"),
        ("temperature", float("nan"), "nan"),
        ("top_p", -0.5, "-0.5"),
        ("max_new_tokens", 0, "max_new_tokens"),
        ("stop", ["a", ""], "''"),
        ("stop", "", "STRING_ARRAY"),
        ("stop", 0, "STRING_ARRAY"),
        ("stop", False, "STRING_ARRAY"),
        ("overload", "panic", "'panic'"),
        ("model", "other.onnx", "'other.onnx'"),
        ("tokens_depth", 5, "read-only"),
        ("autostart", False, "read-only"),
    ],
)
def test_a_refused_value_is_named_and_leaves_the_old_one(
    peer: Peer, name: str, value: object, named: str
) -> None:
    before = peer.get(*NAMES)
    for atomically in (False, True):
        result = peer.set(atomically=atomically, **{name: value})[0]
        assert not result.successful
        assert named in result.reason
    assert peer.get(*NAMES) == before


def test_values_set_atomically_are_all_used_or_none(peer: Peer) -> None:
    before = peer.get("temperature", "top_p", "top_k")
    [result] = peer.set(atomically=True, temperature=0.5, top_p=-0.5, top_k=3)
    assert not result.successful
    assert "top_p" in result.reason
    assert peer.get("temperature", "top_p", "top_k") == before
    [result] = peer.set(atomically=True, temperature=0.5, top_p=0.5, top_k=3)
    assert result.successful
    assert peer.get("temperature", "top_p", "top_k") == [0.5, 0.5, 3]


def test_an_invalid_combination_is_refused(peer: Peer) -> None:
    assert peer.change("deactivate", "cleanup")
    try:
        reason = peer.set(atomically=True, capacity=64, max_new_tokens=64)[0].reason
        assert re.findall(r"max_new_tokens|capacity|64", reason) == ["max_new_tokens", "capacity", "64", "64"]
        assert peer.get("capacity", "max_new_tokens") == [0, -1]
        assert "tokens_depth" in peer.set(capacity=5000)[0].reason
    finally:
        assert peer.change("configure", "activate")


def test_the_next_request_and_model_info_see_a_change(peer: Peer) -> None:
    assert peer.set(max_new_tokens=3)[0].successful
    assert peer.complete("drive forward").finish_reason == "length"
    until(
        lambda: peer.latest(ModelInfo, "model_info", latched=True).options.max_new_tokens == 3,
        "change in model_info",
    )
    assert peer.set(max_new_tokens=-1)[0].successful


def test_an_empty_list_of_stop_strings_is_the_models_own(peer: Peer) -> None:
    assert peer.get("stop") == [[]]  # as given at startup
    for value in ([""], ["x", "y"], []):
        assert peer.set(stop=Parameter("stop", Parameter.Type.STRING_ARRAY, value))[0].successful
        assert peer.get("stop") == [value]
    assert peer.set(stop=["x"])[0].successful
    assert peer.set(stop=[])[0].successful  # of any type that the sender's library chooses
    assert peer.get("stop") == [[]]


def test_a_change_that_cannot_be_applied_is_logged_and_the_node_goes_on(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise OSError("injected")

    context = rclpy.Context()
    with own_domain() as domain:
        rclpy.init(context=context, domain_id=domain)
        node = Node("lonely", context=context)
        try:
            Parameters(node, fail)
            [result] = node.set_parameters([Parameter("temperature", value=0.5)])
            assert result.successful
            assert node.get_parameter("temperature").value == 0.5
        finally:
            node.destroy_node()
            rclpy.shutdown(context=context)
    assert "injected" in capfd.readouterr().err


def test_descriptors_have_description_range_and_read_only(peer: Peer) -> None:
    client = peer.node.create_client(DescribeParameters, "edgegpt/describe_parameters")
    assert client.wait_for_service(10)
    descriptors = peer.wait(client.call_async(DescribeParameters.Request(names=NAMES))).descriptors
    peer.destroy(peer.node.destroy_client, client)
    for entry, descriptor in zip(PARAMETERS, descriptors, strict=True):
        assert descriptor.description == entry.description
        assert descriptor.read_only is (entry.change == "read-only")
        ranges = [*descriptor.integer_range, *descriptor.floating_point_range]
        assert [(r.from_value, r.to_value) for r in ranges] == ([entry.range] if entry.range else [])


def test_the_readmes_table_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (.+?) \| (.+) \|$", README, re.MULTILINE)
    expected = []
    for entry in PARAMETERS:
        span = "" if entry.range is None else f"{entry.range[0]:g} to {entry.range[1]:g}"
        default = str(entry.default).lower() if isinstance(entry.default, bool) else repr(entry.default)
        expected.append((entry.name, f"`{default}`", span or "-", entry.change, entry.description))
    assert rows == expected


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ({"temperature": "hot"}, {"temperature": 1.0}),
        ({"top_k": 1.5}, {"top_k": 5}),
        ({"threads": 1000}, {"threads": 1}),
        ({"top_p": -0.5}, {"top_p": 0.5}),
        ({"stop": 0}, {"stop": ["."]}),
    ],
    ids=str,
)
def test_a_wrong_initial_value_is_reported_and_can_be_corrected(
    model_file: Path, wrong: dict[str, Any], right: dict[str, Any]
) -> None:
    [(name, value)] = wrong.items()
    with generator_and_peer({"model": model_file, **wrong}, active=False) as (process, peer):
        until(lambda: name in process.text and str(value) in process.text, "error in the log")
        assert peer.state() == "unconfigured"
        assert not peer.change("configure")
        assert peer.set(**right)[0].successful
        assert peer.change("configure", "activate")
        assert peer.complete("stop").text


def test_a_wrong_initial_value_is_in_the_diagnostics_until_it_is_corrected(model_file: Path) -> None:
    parameters = {"model": model_file, "temperature": "hot", "autostart": "false"}
    with generator_and_peer(parameters, active=False) as (_, peer):
        status = peer.status()
        assert status.level == DiagnosticStatus.ERROR
        assert "'hot'" in status.message
        assert peer.set(temperature=1.0)[0].successful
        assert peer.status().level == DiagnosticStatus.WARN
