"""The client library in a robot's own node: what it gives and what it refuses."""

from pathlib import Path

import pytest
from edgegpt_msgs.msg import ErrorCode
from edgegpt_ros.client import Answer, GeneratorClient, NoServerError, RefusedError
from rclpy.node import Node

from .peer import SOON, Peer, until
from .robot import WHOLE


def test_a_reply_is_typed_and_whole(client: GeneratorClient) -> None:
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
    assert list(pending) == []  # it is given once


def test_a_request_that_is_not_streamed_comes_in_one_piece(client: GeneratorClient) -> None:
    pending = client.start("stop", stream=False, max_new_tokens=5)
    assert list(pending) == [pending.result(SOON).text]


def test_cancelling_gives_what_there_was(client: GeneratorClient) -> None:
    pending = client.start("stop")
    next(iter(pending))
    pending.cancel()
    answer = pending.result(SOON)
    assert answer.finish_reason == "cancelled"
    assert 0 < answer.usage.completion_tokens < WHOLE


def test_cancelling_at_once_is_not_lost(client: GeneratorClient) -> None:
    pending = client.start("stop")
    pending.cancel()
    assert pending.result(SOON).finish_reason == "cancelled"


def test_a_timeout_cancels_the_request(client: GeneratorClient, slow_domain: int) -> None:
    with Peer(slow_domain) as peer:
        before = peer.counted("cancelled")
        with pytest.raises(TimeoutError, match=r"no answer within 0\.2 s"):
            client.generate("stop", max_new_tokens=200, timeout_s=0.2)
        until(lambda: peer.counted("cancelled") == before + 1, "cancelled request")
    assert client.generate("stop", max_new_tokens=1, timeout_s=None).usage.completion_tokens == 1


@pytest.mark.parametrize("timeout_s", [1e10, float("inf")])
def test_any_length_of_time_may_be_waited(client: GeneratorClient, timeout_s: float) -> None:
    assert client.generate("stop", max_new_tokens=1, timeout_s=timeout_s).finish_reason == "length"


@pytest.mark.parametrize("timeout_s", [-1, float("nan")])
def test_a_timeout_that_is_none_is_refused(client: GeneratorClient, timeout_s: float) -> None:
    with pytest.raises(ValueError, match="timeout_s must be at least 0 seconds, got"):
        client.generate("stop", timeout_s=timeout_s)


def test_a_refusal_has_code_and_sentence(client: GeneratorClient) -> None:
    with pytest.raises(RefusedError, match="the prompt '' is empty") as refused:
        client.generate("")
    assert refused.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("prompt", "options", "sentence"),
    [
        ("a\0b", {}, "the prompt holds a NUL character at position 1"),
        ("a\ud800", {}, "the prompt holds half a character at position 1"),
        (None, {}, "the prompt must be text, got None"),
        ("a", {"session": b"s"}, "the session must be text, got b's'"),
        ("a", {"session": "s\0"}, "the session holds a NUL character at position 1"),
        ("a", {"temperature": 10**400}, "temperature must fit into double, got a number of 401 digits"),
        ("a", {"top": 1}, "there is no option 'top'"),
        ("a", {"top_k": "many"}, "top_k must be of type int32, got 'many'"),
        ("a", {"top_k": 2**31}, "top_k must fit into int32"),
        ("a", {"stop": ["x\0"]}, "the stop holds a NUL character"),
    ],
)
def test_what_no_message_can_hold_is_refused_before_it_is_sent(
    client: GeneratorClient, prompt: object, options: dict, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        client.start(prompt, **options)


def test_without_a_node_there_is_an_error_in_time(robot: Node) -> None:
    with (
        GeneratorClient(robot, action="elsewhere/generate") as client,
        pytest.raises(NoServerError, match="elsewhere"),
    ):
        client.generate("stop", timeout_s=0.3)


def test_the_readmes_ten_lines_run(robot: Node, capsys: pytest.CaptureFixture[str]) -> None:
    readme = (Path(__file__).parents[2] / "ros2_ws/src/edgegpt_ros/README.md").read_text(encoding="utf-8")
    code = readme.partition("```python\n")[2].partition("```")[0]
    assert len([line for line in code.splitlines() if line]) <= 12
    names = {"node": robot}
    exec(code, names)
    names["client"].close()
    assert capsys.readouterr().out
