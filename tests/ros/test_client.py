"""The client library in a robot's own node: what it returns and what it refuses."""

from typing import Any

import pytest
from edgegpt_msgs.msg import ErrorCode
from edgegpt_ros.client import Answer, GeneratorClient, NoServerError, RefusedError
from rclpy.node import Node

from .helpers.peer import SOON, Peer, until
from .helpers.process import ROOT
from .helpers.robot import WHOLE


def test_an_answer_is_typed_and_whole(client: GeneratorClient) -> None:
    answer = client.generate("stop", timeout_s=SOON, temperature=0)
    assert isinstance(answer, Answer)
    assert answer.finish_reason == "length"
    assert answer.usage.completion_tokens == WHOLE
    assert answer.timing.total_ms > answer.timing.ttft_ms > 0


def test_the_stream_joins_to_the_text_and_comes_while_it_grows(client: GeneratorClient) -> None:
    pending = client.start("stop", max_new_tokens=150)
    texts = iter(pending)
    first = next(texts)
    assert not pending.done()
    rest = list(texts)
    assert first + "".join(rest) == pending.result().text
    assert len(rest) > 5
    assert list(pending) == []  # each text is given once


def test_a_request_without_a_stream_comes_as_one_text(client: GeneratorClient) -> None:
    pending = client.start("stop", stream=False, max_new_tokens=5)
    assert list(pending) == [pending.result(SOON).text]


@pytest.mark.parametrize("at_once", [False, True])
def test_cancelling_returns_the_text_so_far(client: GeneratorClient, at_once: bool) -> None:
    pending = client.start("stop")
    if not at_once:
        next(iter(pending))
    pending.cancel()
    answer = pending.result(SOON)
    assert answer.finish_reason == "cancelled"
    assert (0 if at_once else 1) <= answer.usage.completion_tokens < WHOLE


def test_a_timeout_cancels_the_request(client: GeneratorClient, slow_domain: int) -> None:
    with Peer(slow_domain) as peer:
        before = peer.counted("cancelled")
        with pytest.raises(TimeoutError):
            client.generate("stop", max_new_tokens=200, timeout_s=0.2)
        until(lambda: peer.counted("cancelled") == before + 1, "cancelled request")


@pytest.mark.parametrize("timeout_s", [None, 1e10, float("inf")])
def test_any_length_of_time_may_be_waited(client: GeneratorClient, timeout_s: float | None) -> None:
    assert client.generate("stop", max_new_tokens=1, timeout_s=timeout_s).finish_reason == "length"


@pytest.mark.parametrize("timeout_s", [-1, float("nan")])
def test_a_negative_timeout_is_refused(client: GeneratorClient, timeout_s: float) -> None:
    with pytest.raises(ValueError, match=str(timeout_s)):
        client.generate("stop", timeout_s=timeout_s)


def test_a_refusal_has_a_code(client: GeneratorClient) -> None:
    with pytest.raises(RefusedError, match="''") as refused:
        client.generate("")
    assert refused.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("prompt", "options", "values"),
    [
        ("a\0b", {}, ["prompt", "NUL", "1"]),
        ("a\ud800", {}, ["prompt", "surrogate", "1"]),
        (None, {}, ["prompt", "None"]),
        ("a", {"session": b"s"}, ["session", "b's'"]),
        ("a", {"session": "s\0"}, ["session", "NUL", "1"]),
        ("a", {"temperature": 10**400}, ["temperature"]),
        ("a", {"top": 1}, ["'top'", "top_k"]),
        ("a", {"top_k": "many"}, ["top_k", "'many'"]),
        ("a", {"top_k": True}, ["top_k", "True"]),
        ("a", {"top_k": 2**31}, ["top_k", str(2**31)]),
        ("a", {"stop": ["x\0"]}, ["stop", "NUL"]),
        ("a", {"stop": [1]}, ["stop", "1"]),
    ],
)
def test_what_no_message_can_hold_is_refused_before_it_is_sent(
    client: GeneratorClient, prompt: Any, options: dict[str, Any], values: list[str]
) -> None:
    with pytest.raises(ValueError, match=values[0]) as refused:
        client.start(prompt, **options)
    assert [value for value in values if value not in str(refused.value)] == []


def test_without_a_node_there_is_an_error_in_time(robot: Node) -> None:
    with (
        GeneratorClient(robot, action="elsewhere/generate") as client,
        pytest.raises(NoServerError, match="elsewhere"),
    ):
        client.generate("stop", timeout_s=0.3)


def test_the_readmes_example_runs(robot: Node, capsys: pytest.CaptureFixture[str]) -> None:
    readme = (ROOT / "ros2_ws/src/edgegpt_ros/README.md").read_text(encoding="utf-8")
    code = readme.partition("```python\n")[2].partition("```")[0]
    assert len([line for line in code.splitlines() if line]) <= 12
    names: dict[str, Any] = {"node": robot}
    exec(code, names)
    names["client"].close()
    assert capsys.readouterr().out
