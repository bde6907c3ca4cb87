"""Parameters are checked before they count, and said what is wrong with them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import rclpy
from edgegpt_msgs.msg import ModelInfo
from edgegpt_ros.parameters import PARAMETERS, Parameters
from rcl_interfaces.srv import DescribeParameters
from rclpy.node import Node
from rclpy.parameter import Parameter

from .pair import generator_and_peer
from .peer import Peer, until
from .workspace import WORKSPACE, own_domain

README = (WORKSPACE / "src" / "edgegpt_ros" / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def peer(model_file: Path) -> Iterator[Peer]:
    # Whole numbers for doubles, which rclpy alone answers with a dead node.
    doubles = {"temperature": 0, "chunk_ms": 5, "session_ttl_s": 60}
    parameters = {"model": model_file, "threads": 0, "stop": [], **doubles}
    with generator_and_peer(parameters) as (_, peer):
        yield peer


def test_a_whole_number_does_for_a_double(peer: Peer) -> None:
    assert peer.get("temperature", "chunk_ms", "session_ttl_s") == [0.0, 5.0, 60.0]
    [result] = peer.set(temperature=1)
    assert result.successful
    assert peer.get("temperature") == [1.0]


def test_no_number_of_threads_is_one_where_the_file_was_not_tuned(peer: Peer) -> None:
    assert peer.get("threads") == [0]
    assert peer.latest(ModelInfo, "model_info", latched=True).threads == 1


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("temperature", 2000.0, "temperature"),
        ("temperature", float("nan"), "temperature"),
        ("top_p", -0.5, "top_p must be a number between 0 and 1, got -0.5"),
        ("max_new_tokens", 0, "max_new_tokens must be a whole number of at least 1, got 0"),
        ("stop", ["a", ""], "stop must hold strings that are not empty, got ''"),
        ("stop", "", "Wrong parameter type, expected 'Type.STRING_ARRAY' got 'Type.STRING'"),
        ("stop", 0, "Wrong parameter type, expected 'Type.STRING_ARRAY' got 'Type.INTEGER'"),
        ("stop", False, "Wrong parameter type, expected 'Type.STRING_ARRAY' got 'Type.BOOL'"),
        ("overload", "panic", "overload"),
        ("model", "other.onnx", "model can be changed only while the node is unconfigured"),
        ("tokens_depth", 5, "read-only parameter: tokens_depth"),
        ("autostart", False, "read-only parameter: autostart"),
    ],
)
def test_a_refused_value_is_said_and_leaves_the_old_one(
    peer: Peer, name: str, value: object, sentence: str
) -> None:
    before = peer.get(*[entry.name for entry in PARAMETERS])
    for atomically in (False, True):
        result = peer.set(atomically=atomically, **{name: value})[0]
        assert not result.successful
        assert sentence in result.reason
    assert peer.get(*[entry.name for entry in PARAMETERS]) == before


def test_several_at_once_are_all_taken_or_none(peer: Peer) -> None:
    before = peer.get("temperature", "top_p", "top_k")
    [result] = peer.set(atomically=True, temperature=0.5, top_p=-0.5, top_k=3)
    assert not result.successful
    assert "top_p" in result.reason
    assert peer.get("temperature", "top_p", "top_k") == before
    [result] = peer.set(atomically=True, temperature=0.5, top_p=0.5, top_k=3)
    assert result.successful
    assert peer.get("temperature", "top_p", "top_k") == [0.5, 0.5, 3]


def test_parameters_that_do_not_go_together_are_refused(peer: Peer) -> None:
    assert peer.change("deactivate", "cleanup")
    try:
        [result] = peer.set(atomically=True, capacity=64, max_new_tokens=64)
        assert result.reason == "max_new_tokens must be below capacity, got 64 and 64"
        assert peer.get("capacity", "max_new_tokens") == [0, -1]
        [result] = peer.set(capacity=5000)
        assert "capacity must not be above tokens_depth" in result.reason
    finally:
        assert peer.change("configure", "activate")


def test_the_next_request_and_model_info_see_a_change(peer: Peer) -> None:
    [result] = peer.set(max_new_tokens=3)
    assert result.successful
    assert peer.complete("drive forward two metres").finish_reason == "length"
    until(
        lambda: peer.latest(ModelInfo, "model_info", latched=True).options.max_new_tokens == 3,
        "change in model_info",
    )
    assert peer.set(max_new_tokens=-1)[0].successful


def test_an_empty_list_of_stop_strings_is_the_models_own(peer: Peer) -> None:
    assert peer.get("stop") == [[]]  # as given at the start
    for value in ([""], ["x", "y"], []):
        assert peer.set(stop=Parameter("stop", Parameter.Type.STRING_ARRAY, value))[0].successful
        assert peer.get("stop") == [value]
    assert peer.set(stop=["x"])[0].successful
    assert peer.set(stop=[])[0].successful  # whatever kind of list the sender's library takes it for
    assert peer.get("stop") == [[]]


def test_a_change_that_fails_to_count_is_said_and_the_node_goes_on(capfd: pytest.CaptureFixture[str]) -> None:
    context = rclpy.Context()
    with own_domain() as domain:
        rclpy.init(context=context, domain_id=domain)
        node = Node("lonely", context=context)
        try:

            def fail() -> None:
                raise OSError("no room for it")

            Parameters(node, fail)
            [result] = node.set_parameters([Parameter("temperature", value=0.5)])
            assert result.successful
            assert node.get_parameter("temperature").value == 0.5
        finally:
            node.destroy_node()
            rclpy.shutdown(context=context)
    assert "the parameters were set but do not count: no room for it" in capfd.readouterr().err


def test_descriptors_say_range_and_read_only(peer: Peer) -> None:
    client = peer.node.create_client(DescribeParameters, "edgegpt/describe_parameters")
    assert client.wait_for_service(10)
    names = [entry.name for entry in PARAMETERS]
    descriptors = peer.wait(client.call_async(DescribeParameters.Request(names=names))).descriptors
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
def test_a_wrong_value_at_the_start_is_said_and_can_be_set_right(
    model_file: Path, wrong: dict, right: dict
) -> None:
    with generator_and_peer({"model": model_file, **wrong}, active=False) as (process, peer):
        until(lambda: next(iter(wrong)) in process.text, "sentence")
        assert peer.state() == "unconfigured"
        assert not peer.change("configure")
        assert peer.set(**right)[0].successful
        assert peer.change("configure", "activate")
        assert peer.complete("stop").text
